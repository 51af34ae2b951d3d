"""`python -m rocmfix`, and the entry point inside the zipapp."""

from rocmfix.cli import main

if __name__ == "__main__":
    main()
