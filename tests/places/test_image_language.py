"""The static file copied into an image of a language, by deploy/image/language.Dockerfile: ./dev images."""
import pytest

from harness.images import HARD, podman


@pytest.mark.parametrize("language,command", [("python", "python3 -c 'print(6 * 7)'"), ("node", "node -p '6 * 7'")])
def test_language(run_image, volume, language, command):
    c = run_image(*HARD, *volume(1000), f"localhost/sallyport-{language}")
    assert c.run(f"id -u; {command}")["stdout"] == "1000\n42\n"
    assert c.request("PUT", "/files/a.txt", b"data").status == 201 and c.run("cat a.txt")["stdout"] == "data"
    assert podman("healthcheck", "run", c.id).returncode == 0 and c.stop() == 0
