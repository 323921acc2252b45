"""Commands that the guard lets be, in /work/space with the home /home/me. `| ` goes on a line."""

from __future__ import annotations

FINE = r"""
ls -la
echo "rm -rf /"
echo 'rm -rf /'
echo rm -rf /
echo "rm -rf /" > notes.txt
echo "do not run rm -rf / or git push --force" | tee notes.txt
printf '%s\n' 'rm -rf /'
git commit -m "rm -rf"
git commit -m "remove rm -rf / from the script"
git commit -am 'git push --force is bad; see ~/.ssh'
git log --grep='rm -rf /'
grep -rn "rm -rf /" .
grep -r 'rm -rf' src | head
rg "git push --force" docs
grep -n "/etc/shadow" src/app.py
sed -n '1,20p' script.sh
sed -i 's/rm -rf/rm -r/' script.sh
cat <<'EOF' > clean.md
| Never run rm -rf / or cat ~/.ssh/id_rsa.
| EOF
cat > x.sh <<EOF
| rm -rf build
| EOF
# rm -rf /
ls # rm -rf /
rm file.txt
rm -f file.txt other.txt
rm -f .git/index.lock
rm "$file"
rm -i x
rm -rf build
rm -rf ./build dist/
rm -rf build/*
rm -rf -- build
rm -rf "build dir"
rm -rf node_modules package-lock.json
rm -rf /work/space/build
rm -rf src/../build
rm -rf *.egg-info
rm -rf **/__pycache__
rm -rf packages/*/dist
rm -rf build{1,2,3}
rm -rf {build,dist}
rm -rf .pytest_cache .mypy_cache
rm -rf .gitlab-tmp
rm -rf /tmp/x
rm -rf /tmp/*
rm -rf "$TMPDIR/x"
rm -rf "${TMPDIR:-/tmp}/x"
rm -rf /var/tmp/x
rm -rf ~/.cache/pip
rm -rf "$PWD/build"
rm -rf "$(pwd)/build"
rm -rf "$(git rev-parse --show-toplevel)/build"
X=build; rm -rf $X
X=build; rm -rf "$X/out"
X=build && mkdir -p $X && rm -rf $X
OUT=/tmp/out; rm -rf "$OUT" && mkdir "$OUT"
d=$(mktemp -d); cp x "$d"; rm -rf "$d"
d=$(mktemp -d) && trap 'rm -rf "$d"' EXIT
tmp=`mktemp -d`; cleanup() { rm -rf "$tmp"; }; trap cleanup EXIT
for d in build dist; do rm -rf $d; done
for d in packages/*; do rm -rf "$d/dist"; done
f() { rm -rf "$1"; }; f build
cd sub && rm -rf build
cd sub || exit 1; rm -rf *
cd sub && rm -rf *
set -e; cd sub; rm -rf *
cd /tmp && rm -rf x
cd /tmp/x && rm -rf *
(cd sub && rm -rf build) && ls
(cd / && ls); rm -rf build
cd / | true; rm -rf build
find . -name '*.pyc' -delete
find . -type d -name __pycache__ -exec rm -rf {} +
find . -name node_modules -prune -exec rm -rf '{}' \;
find . -name '*.orig' -print0 | xargs -0 rm -f
find . -name __pycache__ | xargs rm -rf
find build -delete
find / -name libfoo.so 2>/dev/null
find . -name '*.py' -exec grep -l foo {} +
git ls-files '*.orig' | xargs rm -f
echo a b | xargs rm -rf
ls | xargs -n1 echo
git status
git push
git push origin main
git push -u origin feature
git push --set-upstream origin feature
git push --tags
git push origin main:main
git push --follow-tags --dry-run
git push -q origin HEAD
git reset --hard HEAD~1
git reset --hard && git clean -fd
git clean -n -d -x
git clean -fdx build
git checkout -- .
git rebase main
git rebase -x 'make test' main
git commit --amend --no-edit
git branch -D old
git stash drop
git gc
git gc --auto
git gc --prune=2.weeks.ago
git prune -n
git reflog
git reflog show
git update-ref refs/heads/x HEAD
git worktree list
git worktree add ../x
git fetch --prune
git fetch -f origin main
git remote prune origin
git rm -r --cached build
git tag -d v1
git -C sub status
git -c core.pager=cat log
git submodule update --init --recursive
git submodule foreach git status
git diff --force
git checkout -f main
git add -f x
git worktree add --force ../x
npm install --force
npm run clean -- --force
docker push x
dd if=/dev/zero of=file.img bs=1M count=1
dd if=a of=/dev/null
echo x > /dev/null
echo x > /dev/null 2>&1
ls 2>/dev/stderr
cat x >/dev/stdout
parted --version
fdisk --help
man mkfs
which rm shred
command -v rm
type rm
apt-get install parted
pip install shred
sudo apt-get install -y gdisk
chmod -R u+w build
chmod -R 755 .
chmod +x script.sh
chown -R me sub
mv a b
mv build /tmp/x
rsync -a --delete src/ build/
rsync -a src/ host:/
sh -c 'rm -rf build'
bash -lc 'npm ci && npm test'
bash -c 'echo "rm -rf /"'
bash script.sh
sh ./build.sh --clean
curl -fsSL https://x.example/install.sh | sh
curl -s https://x.example | bash -s -- --yes
eval "$(pyenv init -)"
eval "$(ssh-agent -s)"
echo aGVsbG8= | base64 -d
base64 -d x.b64 > x
$PYTHON -m pytest -r tests
$EDITOR x
"$CC" -O2 -o build/x x.c
timeout 60 make test
env FOO=bar npm test
sudo -u me make install
nice -n 19 make -j4
xargs -a list.txt cat
python3 -c "print('rm -rf /')"
python3 -c "import shutil; shutil.rmtree('build')"
python3 -c "import os; os.system('ls -la')"
python3 -c "import shutil; shutil.rmtree('/tmp/x')"
node -e "console.log('git push --force')"
perl -pi -e 's/foo/bar/' x.txt
awk '{print $1}' x
python3 - <<'EOF'
| print("hello")
| EOF
ls ~
ls ~/.cache
cat ~/.gitconfig
cat ~/.bashrc
source ~/.bashrc
cat ~/.claude/CLAUDE.md
ls ~/.codex
echo ~/.ssh/id_rsa
cat .ssh/config
cat tests/fixtures/.aws/credentials
cat .env
cat /etc/os-release
cat /etc/hosts
cat /proc/cpuinfo
cat /proc/self/status
ssh-keyscan github.com >> ~/.ssh/known_hosts
env | sort
printenv
export PATH=$HOME/bin:$PATH
while read -r line; do echo "$line"; done < file
for i in 1 2 3; do echo $i; done
for f in *.txt; do mv "$f" "${f%.txt}.md"; done
if [ -d build ]; then rm -rf build; fi
[ -f x ] && rm x
[[ $x =~ ^rm ]] && echo yes
case $1 in start) ./start;; stop) ./stop;; esac
a=1; ((a++)); echo $((a + 1))
arr=(a b c); echo "${arr[@]}"
diff <(sort a) <(sort b)
make -j$(nproc)
kill -9 $PID
pkill -f node
tar xzf x.tgz -C build
ls | grep rm
test -f rm -o -d x
psql -c "DELETE FROM t"
docker run --rm alpine ls
npx prettier --write .
jq '.rm' x.json
apply_patch <<'EOF'
| *** Begin Patch
| *** Update File: src/app.py
| @@
| -rm -rf /
| +x
| *** End Patch
| EOF
find . -path ./.git -prune -o -name '*.pyc' -delete
find . -not -path './.git/*' -name x -delete
git -c core.pager='less -R' log
echo 'rm -rf build' > x.sh; sh x.sh
while IFS= read -r line; do echo "$line"; done < x
IFS=$'\n\t'; set -euo pipefail; ls
set -euo pipefail; cd sub; rm -rf dist
npm run build && rm -rf dist && mv build dist
rm -rf dist && mkdir -p dist && cp -r src/* dist/
[ -d node_modules ] && rm -rf node_modules; npm ci
test -e x || { echo no; exit 1; }
docker compose down -v
kubectl delete pod x
git stash && git pull --rebase && git stash pop
git branch -d x; git push origin --tags
cat package.json | jq -r '.scripts | keys[]'
python -m venv .venv && . .venv/bin/activate && pip install -e .
GIT_PAGER=cat git log -5
EDITOR=vim git commit
for f in $(git ls-files '*.py'); do wc -l "$f"; done
for f in $(find . -name '*.bak'); do rm "$f"; done
sed -i "s/$OLD/$NEW/g" src/*.py
curl -sS -X DELETE http://localhost:8080/x
awk -F: '{print $1}' /etc/passwd
ssh host uptime
scp x host:/tmp/
make clean
mvn clean install
ls -la /proc/self/fd
xargs -0 rm -f < list
sqlite3 db 'delete from x'
for i in $(seq 1 10); do rm -f "out_$i.txt"; done
echo "unclosed
ls $(unclosed
"""
