"""A small program with a small mistake, for the demo."""

import sys


def greet(name: str) -> str:
    return "Hello!"


if __name__ == "__main__":
    print(greet(sys.argv[1] if len(sys.argv) > 1 else "world"))
