"""conftest.py: lets the tests of the clients find tools.py beside them."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
