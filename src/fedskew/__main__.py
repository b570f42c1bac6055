"""python -m fedskew."""

from fedskew.cli import main

if __name__ == "__main__":
    main()
