"""For scripts that read a private git directory after an agent had it, and obey nothing in it.

They work with a git directory of their own, which has no setting or attribute of anybody's.
"""

from __future__ import annotations

from ags import proc
from ags.workspace import inside

# $1 is the private git directory, $2 the object format. What follows knows where the agent is by
# $head, a commit or nothing, and $branch, a ref or nothing.
SCRIPT = (
    inside.SOUND
    + r"""
own=$1
sound "$own"
git init -q -b none --template= --object-format="$2" /tmp/ags && mkdir /tmp/ags/.git/info || exit
export GIT_DIR=/tmp/ags/.git GIT_WORK_TREE="$PWD" GIT_OBJECT_DIRECTORY="$own/objects"
echo '* -text -ident -filter !working-tree-encoding' > $GIT_DIR/info/attributes
mv $GIT_DIR/refs $GIT_DIR/none && ln -s "$own/refs" $GIT_DIR/refs || exit
for file in HEAD packed-refs shallow; do
    if [ -f "$own/$file" ]; then cp "$own/$file" $GIT_DIR/ || exit; fi
done
branch=$(git symbolic-ref -q HEAD)
head=$(git rev-parse -q --verify 'HEAD^{commit}')
rm -f $GIT_DIR/refs $GIT_DIR/packed-refs && mv $GIT_DIR/none $GIT_DIR/refs || exit
echo 'ref: refs/heads/none' > $GIT_DIR/HEAD
"""
)
_OURS = {
    "/dev/null": ("attributesFile", "excludesFile"),
    "false": ("autocrlf", "ignoreCase", "sparseCheckout", "splitIndex"),
    "true": ("fileMode", "symlinks", "trustCtime"),
    "default": ("checkStat",),
}
SETTINGS = {f"core.{key}": value for value in _OURS for key in _OURS[value]}
ENVIRONMENT = {
    "PATH": proc.SYSTEM_PATH,
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    **{f"GIT_{role}_NAME": "ags" for role in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{role}_EMAIL": "ags@localhost" for role in ("AUTHOR", "COMMITTER")},
}
