//! `record!`: a stored JSON object as a struct that keeps the fields it does not know.
//!
//! `serde(flatten)` would lose or change numbers and depends on features that other crates switch on, so stored
//! data never meets it: unknown fields stay raw text, in their order, and are written back behind the known ones.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The fields of a record that this version does not know, as raw text, in their order.
#[derive(Clone, Default)]
pub struct Extra(Vec<(String, Box<RawValue>)>);

impl Extra {
    /// Keeps one more field.
    pub fn push(&mut self, name: String, value: Box<RawValue>) {
        self.0.push((name, value));
    }

    /// Names and raw texts, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_ref()))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PartialEq for Extra {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self.iter().zip(other.iter()).all(|(a, b)| a.0 == b.0 && a.1.get() == b.1.get())
    }
}

impl Eq for Extra {}

impl fmt::Debug for Extra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(name, value)| (name, value.get()))).finish()
    }
}

/// JSON of any shape that is only carried, as raw text.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Raw(Box<RawValue>);

impl Raw {
    /// Takes a JSON text.
    ///
    /// # Errors
    /// When it is no JSON.
    pub fn new(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text.into()).map(Self)
    }

    /// The text as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Raw {}

/// Declares a stored record: required fields, optional ones (left out where absent), and `extra` for the unknown.
///
/// With `entry "tag"` the record is a journal entry: its object carries `"entry":"tag"`.
macro_rules! record {
    (
        $(#[$doc:meta])*
        pub struct $name:ident $(: entry $tag:literal)? {
            $( $(#[$rdoc:meta])* $req:ident $(as $rname:literal)? : $rty:ty, )*
            ;
            $( $(#[$odoc:meta])* $opt:ident $(as $oname:literal)? : $oty:ty, )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        $( #[cfg_attr(feature = "schema", schemars(transform = $crate::schema::Tag($tag)))] )?
        #[allow(unreachable_pub, reason = "some records are private to their module")]
        pub struct $name {
            $( $(#[$rdoc])* $( #[cfg_attr(feature = "schema", schemars(rename = $rname))] )? pub $req: $rty, )*
            $( $(#[$odoc])* $( #[cfg_attr(feature = "schema", schemars(rename = $oname))] )? pub $opt: Option<$oty>, )*
            /// Fields that this version does not know, kept as they are.
            #[cfg_attr(feature = "schema", schemars(skip))]
            pub extra: $crate::record::Extra,
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                let mut map = to.serialize_map(None)?;
                $( map.serialize_entry("entry", $tag)?; )?
                $( map.serialize_entry($crate::record::record!(@name $req $($rname)?), &self.$req)?; )*
                $( if let Some(value) = &self.$opt {
                    map.serialize_entry($crate::record::record!(@name $opt $($oname)?), value)?;
                } )*
                for (name, value) in self.extra.iter() {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct RecordVisitor;
                impl<'de> serde::de::Visitor<'de> for RecordVisitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("an object (", stringify!($name), ")"))
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        #[allow(unused_imports, reason = "a record without required fields makes no error")]
                        use serde::de::Error as _;
                        $( let mut $req: Option<$rty> = None; )*
                        $( let mut $opt: Option<Option<$oty>> = None; )*
                        let mut extra = $crate::record::Extra::default();
                        while let Some(field) = map.next_key::<String>()? {
                            match field.as_str() {
                                $( $crate::record::record!(@name $req $($rname)?) => {
                                    if $req.replace(map.next_value()?).is_some() {
                                        return Err(A::Error::duplicate_field(
                                            $crate::record::record!(@name $req $($rname)?)));
                                    }
                                } )*
                                $( $crate::record::record!(@name $opt $($oname)?) => {
                                    if $opt.replace(map.next_value()?).is_some() {
                                        return Err(A::Error::duplicate_field(
                                            $crate::record::record!(@name $opt $($oname)?)));
                                    }
                                } )*
                                $( "entry" => {
                                    let tag: String = map.next_value()?;
                                    if tag != $tag {
                                        return Err(A::Error::custom(format!("entry `{tag}`, not `{}`", $tag)));
                                    }
                                } )?
                                _ => extra.push(field, map.next_value()?),
                            }
                        }
                        Ok($name {
                            $( $req: $req.ok_or_else(|| A::Error::missing_field(
                                $crate::record::record!(@name $req $($rname)?)))?, )*
                            $( $opt: $opt.flatten(), )*
                            extra,
                        })
                    }
                }
                from.deserialize_map(RecordVisitor)
            }
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
}
pub(crate) use record;
