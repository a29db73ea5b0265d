#!/bin/sh
# Makes the scratch repository that fixtures/plans/contribute.json works on, below the folder named:
#   remote.git   a bare remote; its post-receive hook writes one line per landing into landings.log
#   work         a clone with one commit
#   forge        a folder that plays the forge: one file per collection, one line per landing
set -eu
dir=${1:?usage: scratch.sh FOLDER}
mkdir -p "$dir"
cd "$dir"
export GIT_AUTHOR_NAME=scratch GIT_AUTHOR_EMAIL=scratch@example.invalid
export GIT_COMMITTER_NAME=scratch GIT_COMMITTER_EMAIL=scratch@example.invalid
export GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
git init -q --bare -b main remote.git
cat > remote.git/hooks/post-receive <<'HOOK'
#!/bin/sh
while read -r old new ref; do echo "$ref $new" >> landings.log; done
HOOK
chmod +x remote.git/hooks/post-receive
git init -q -b main work
echo 'A site.' > work/README
git -C work add README
git -C work commit -q -m 'First'
git -C work push -q ../remote.git main
rm -f remote.git/landings.log
mkdir -p forge
