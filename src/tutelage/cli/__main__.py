"""`python -m tutelage.cli`, where the script `tutelage` is not on the path."""

import sys

from tutelage.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
