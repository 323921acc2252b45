from __future__ import annotations

import sys

from sums import evaluate


def main() -> int:
    try:
        print(evaluate(" ".join(sys.argv[1:])))
    except (ValueError, ZeroDivisionError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
