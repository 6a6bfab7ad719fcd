"""Calls that break a rule in another spelling, each beside a harmless neighbour."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from hilum_checks import compile_rule, judge

from tests.support.judged_commands import Ruled, judge_command, judge_sentence
from tests.support.obedience.judging import make_tool

FILES = {
    ".gitignore": "secret.txt\nout/\nnode_modules/\n*.csv\n",
    "secret.txt": "1\n",
    "out/a/secret.txt": "1\n",
    "node_modules/a/b.js": "1\n",
    "src/a.py": "x = 1\n",
    "db/src/main/resources/db/migration/V1__a.sql": "select 1;\n",
    "sql/V2_1__b.sql": "select 1;\n",
    "sql/Views__b.sql": "select 1;\n",
    "package.json": '{"scripts": {"release": "changeset publish", "lint": "eslint ."}}\n',
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository on the branch `work`, beside `main`."""
    root = tmp_path_factory.mktemp("calls").resolve()
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        os.utime(root / name, (1e9, 1e9))
    for words in (
        "init -q -b main",
        "add -A",
        "-c user.name=a -c user.email=a@example.com commit -q -m start",
        "update-ref refs/remotes/origin/main HEAD",
        "switch -q -c work",
    ):
        subprocess.run(["git", *words.split()], cwd=root, check=True)
    return root


MAIN = "Never commit directly to `main`."
RELEASES = "Never commit to `main` or `release/*`."
SECRET = "Never commit `secret.txt`."
DATA = "Never commit `data/*.csv`."
PACKAGES = "Never commit `node_modules/`."
MIGRATIONS = "Never edit existing migrations."
APPLY = "Never run `terragrunt apply`."
PUSH_IMAGE = "Never run `docker push`."
PUBLISH = "Never publish packages."
TURBO = "Never run `turbo run build`."
CLEAN = "Never run `flyway clean`."
TAGS = "Never create tags."
AMEND = "Do not amend commits."
HARD = "Never run `git reset --hard`."
HISTORY = "Never rewrite history."
PUBLISHED = "Never rewrite published history."
FIRST = "Run `poetry run pytest` before committing."


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        # a cluster of options with the branch that the call switches to
        (MAIN, "git checkout -qB main && git commit -m a"), (MAIN, "git switch -qC main && git commit -m a"),
        (MAIN, "git switch -qfC main && git commit -m a"), (MAIN, "git checkout -fB main && git commit -m a"),
        (MAIN, "git checkout -tB main origin/main && git commit -m a"),
        (MAIN, "git checkout -qt origin/main && git commit -m a"),
        (RELEASES, "git checkout -qb release/1 && git commit -m a"),
        (RELEASES, "git switch -qc release/1 && git commit -m a"),
        # ignored files that are added all the same
        (SECRET, "git add -f ."), (SECRET, "git add -fA && git commit -m a"), (SECRET, "git add --all --force"),
        (SECRET, "git update-index --add secret.txt"), (SECRET, "git update-index --add --cacheinfo 100644,0,secret.txt"),
        (SECRET, "git add -f out"), (SECRET, "git add -f 'out/*'"), (SECRET, "cd out && git add -f ."),
        (DATA, "mkdir data && echo 1 > data/x.csv && git add -f data"), (PACKAGES, "git add -fA"),
        # the folders and names of Flyway
        (MIGRATIONS, "echo x >> db/src/main/resources/db/migration/V1__a.sql"),
        (MIGRATIONS, "sed -i s/a/b/ sql/V2_1__b.sql"),
        # other spellings
        (APPLY, "terragrunt run-all apply --non-interactive"), (APPLY, "terragrunt run --all apply"),
        (APPLY, "terragrunt run --all -- apply"), (APPLY, "terragrunt apply-all"), (APPLY, "terragrunt run apply"),
        (APPLY, "terragrunt stack run apply"), (PUSH_IMAGE, "docker image push a"),
        (PUSH_IMAGE, "docker compose -f a.yml push"), (PUSH_IMAGE, "docker-compose push web"),
        (PUSH_IMAGE, "docker buildx build --push -t a ."), (PUSH_IMAGE, "docker buildx bake --push"),
        ("Never run `docker image push`.", "docker push a"),
        (PUBLISH, "pnpm changeset publish"), (PUBLISH, "pnpm release"), (PUBLISH, "npx lerna publish"),
        (PUBLISH, "npx semantic-release"), (PUBLISH, "mvn deploy"), (PUBLISH, "./mvnw -B clean deploy"),
        (PUBLISH, "./gradlew clean :lib:publish"),
        (TURBO, "turbo build"), (TURBO, "npx turbo build --filter web"), (TURBO, "turbo run lint build"),
        (TURBO, "turbo run web#build"), ("Never run `turbo build`.", "turbo run build"),
        (CLEAN, "flyway migrate clean"), (CLEAN, "mvn flyway:clean"), (CLEAN, "./gradlew flywayClean"),
        (TAGS, "gh release create v0.2.0"), (TAGS, "npm version patch"), (TAGS, "npx changeset tag"),
        (AMEND, "git commit --am --no-edit"), (HARD, "git reset --ha HEAD~1"),
        (HISTORY, "git rebase -i HEAD~2"), (HISTORY, "git commit --amend --no-edit"), (HISTORY, "git push --force"),
        (PUBLISHED, "git push --force"),
        (FIRST, "git revert HEAD"), (FIRST, "git cherry-pick HEAD~1"), (FIRST, "git cherry-pick -n --commit HEAD~1"),
        (FIRST, "git cherry-pick --continue"),
        ("Never run `kubectl apply`.", "kubectl apply set-last-applied -f x"), ("Never run `dvc push`.", "dvc push"),
        ("Never run `hatch publish`.", "hatch publish -r --help"),
    ],
)  # fmt: skip
def test_another_spelling_is_denied(sentence: str, command: str, root: Path) -> None:
    assert judge_sentence(sentence, command, root) == "deny"


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        (MAIN, "git checkout -qB topic && git commit -m a"), (MAIN, "git checkout -qb topic main && git commit -m a"),
        (MAIN, "git checkout main src/a.py && git commit -m a"), (MAIN, "git switch -d main && git commit -m a"),
        (MAIN, "git checkout --detach main && git commit -m a"), (SECRET, "git update-index --add src/a.py"),
        (RELEASES, "git checkout -qb feature/1 && git commit -m a"),
        (SECRET, "git add -f src"), (SECRET, "git add -A"), (SECRET, "git add ."), (SECRET, "cd src && git add -f ."),
        (SECRET, "git add -nf ."), (DATA, "mkdir data && echo 1 > data/x.txt && git add -f data"),
        (DATA, "mkdir data && echo 1 > data/x.csv && git add -f src"), (PACKAGES, "git add -A"),
        (MIGRATIONS, "echo x > db/src/main/resources/db/migration/V2__a.sql"),
        (MIGRATIONS, "sed -i s/a/b/ sql/Views__b.sql"),
        (APPLY, "terragrunt run-all plan"), (APPLY, "terragrunt run --all plan"), (APPLY, "terragrunt apply --help"),
        (PUSH_IMAGE, "docker image pull a"), (PUSH_IMAGE, "docker build -t push ."),
        (PUSH_IMAGE, "docker compose up push"), (PUSH_IMAGE, "docker run push"),
        (PUBLISH, "npx semantic-release --dry-run"), (PUBLISH, "mvn verify"), (PUBLISH, "./gradlew publishToMavenLocal"),
        (PUBLISH, "pnpm changeset version"), (PUBLISH, "pnpm lint"),
        (TURBO, "turbo run lint"), (TURBO, "turbo run lint -- build"), (TURBO, "turbo run lint --filter build"),
        (TURBO, "turbo prune build"), (CLEAN, "mvn clean"), (CLEAN, "mvn flyway:migrate"), (CLEAN, "flyway migrate"),
        (TAGS, "gh release create v0.2.0 --verify-tag"), (TAGS, "npm version"),
        (TAGS, "npm version patch --no-git-tag-version"), (TAGS, "gh release list"),
        (AMEND, "git commit --all -m x"), (HARD, "git reset --soft HEAD~1"),
        (HISTORY, "git rebase main"), (HISTORY, "git rebase --abort"), (HISTORY, "git commit -m a"),
        (PUBLISHED, "git commit --amend --no-edit"), (PUBLISHED, "git rebase -i HEAD~2"),
        # nothing is committed, shown or pushed
        (FIRST, "git revert --no-commit HEAD"), (FIRST, "git cherry-pick -n HEAD~1"),
        ("Never run `kubectl apply`.", "kubectl apply view-last-applied deploy/x"),
        ("Never run `dvc push`.", "dvc push --help"), ("Never run `hatch publish`.", "hatch publish --help"),
    ],
)  # fmt: skip
def test_a_neighbour_is_allowed(sentence: str, command: str, root: Path) -> None:
    assert judge_sentence(sentence, command, root) == ""


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("go mod edit -require=github.com/x/y@v1.0.0", "ask"),
        ("go mod edit -require github.com/x/y@v1.0.0", "ask"),
        ("npm pkg set dependencies.left-pad=1", "ask"),
        ("uv pip install --python /tmp/venv requests", "ask"),
        ("go mod edit -go=1.22", ""),
        ("npm pkg set scripts.x=1", ""),
        ("uv pip install --python /tmp/venv -e .", ""),
    ],
)
def test_added_packages(command: str, kind: str, root: Path) -> None:
    assert judge_sentence("Ask before adding new dependencies.", command, root) == kind


RAW, SESSION = "Never use `objects.raw()`.", "Never use `session.execute()`."
SLEEP, RUN = "Never use `time.sleep()` in tests.", "Never use `subprocess.run()`."
READ = "Never use `fs.readFileSync`."
IN_PLACE = "Never use `df.iterrows()` or `inplace=True`."
PLACES = "No hardcoded paths: never write `/home/` or `/mnt/data` in code."


def judge_text(sentence: str, path: str, text: str, root: Path) -> str:
    rule = Ruled(sentence, compile_rule(sentence, hard=False).check)
    arguments = json.dumps({"path": path, "content": text})
    found = judge([rule], arguments, make_tool("write_file"), root)
    return found.kind if found else ""


@pytest.mark.parametrize(
    ("sentence", "path", "text"),
    [
        (RAW, "src/b.py", 'Q = Order.objects.raw("select 1")'),
        (SESSION, "src/b.py", "await self.session.execute(q)"),
        ("Never use `logger.warn()`.", "src/b.py", 'self.logger.warn("x")'),
        ("Never use `db.session.commit()`.", "src/b.py", "current_app.db.session.commit()"),
        (READ, "src/b.ts", 'this.fs.readFileSync("x")'),
        (SLEEP, "tests/test_b.py", "from time import sleep\nsleep(1)"),
        (SLEEP, "tests/test_b.py", "from time import (\n    monotonic,\n    sleep,\n)"),
        (SLEEP, "tests/test_b.py", "import os, time as t\n\nt.sleep(1)"),
        (RUN, "src/b.py", 'from subprocess import run\nrun(["ls"])'),
        (IN_PLACE, "src/b.py", "df.dropna(inplace=True)"),
        (IN_PLACE, "src/b.py", "df.iterrows()"),
        (PLACES, "src/b.py", 'P = "/home/me/x"'),
        (PLACES, "src/b.py", 'P = "/mnt/data/x"'),
    ],
)
def test_code_is_found_behind_an_object_and_by_its_import(
    sentence: str, path: str, text: str, root: Path
) -> None:
    assert judge_text(sentence, path, text, root) == "deny"


@pytest.mark.parametrize(
    ("sentence", "path", "text"),
    [
        (RAW, "src/b.py", "Q = myobjects.raw(1)"),
        (SESSION, "src/b.py", "self.session.executes(q)"),
        # a module of another package
        ("Never use `random.random()`.", "src/b.py", "x = np.random.random()"),
        (READ, "src/b.ts", 'memfs.readFileSync("x")'),
        (SLEEP, "tests/test_b.py", "import time as t\n\nt.monotonic()"),
        (SLEEP, "tests/test_b.py", "from time import monotonic  # and not sleep\n"),
        (SLEEP, "src/b.py", "from time import sleep\n"),
        (RUN, "src/b.py", "from asyncio import run\nrun(main())"),
        (IN_PLACE, "src/b.py", "df.dropna(inplace=False)"),
        (PLACES, "src/b.py", 'P = "/mnt/database/x"'),
        (PLACES, "src/b.py", 'P = "x/home/me"'),
        (PLACES, "README.md", "Data is in /mnt/data."),
    ],
)
def test_other_code_is_allowed(sentence: str, path: str, text: str, root: Path) -> None:
    assert judge_text(sentence, path, text, root) == ""


def test_a_sentence_about_files_is_not_about_their_text(root: Path) -> None:
    assert judge_sentence("Never write files in `/etc`.", "echo x > /etc/hosts", root) == "deny"
    assert judge_sentence(PLACES, "echo x > /home/someone/x", root) == ""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("feature/PAY-12-refund", ""),
        ("bugfix/PAY-1-a", ""),
        ("feature/refund", "deny"),
        ("feature/PAY-x-refund", "deny"),
        ("other/PAY-1-a", "deny"),
    ],
)
def test_the_number_in_a_branch_name_is_required(name: str, kind: str, root: Path) -> None:
    sentence = "Branches must be named `feature/PAY-<n>-<name>` or `bugfix/PAY-<n>-<name>`."
    assert judge_sentence(sentence, f"git switch -c {name}", root) == kind
    assert (
        judge_sentence("Branches are named `PAY-<n>-<name>`.", "git switch -c PAY-1-a", root) == ""
    )


@pytest.mark.parametrize(
    "sentence",
    [
        "Pull requests must target `main`, and always be opened as drafts.",
        "Pull requests must be opened as drafts and target `main`.",
    ],
)
def test_both_demands_of_a_sentence_are_kept(sentence: str, root: Path) -> None:
    assert not compile_rule(sentence, hard=False).is_partial
    opening = "gh pr create --title a --body b"
    assert judge_sentence(sentence, f"{opening} --base main --draft", root) == ""
    assert judge_sentence(sentence, f"{opening} --base main", root) == "deny"
    assert judge_sentence(sentence, f"{opening} --base dev --draft", root) == "deny"


@pytest.mark.parametrize(
    ("sentence", "forbidden", "harmless"),
    [
        ("Nunca leer `secret.txt`.", "cat secret.txt", "cat src/a.py"),
        ("Nunca leas `secret.txt`.", "cat secret.txt", "cat src/a.py"),
        ("Não leia o arquivo `secret.txt`.", "cat secret.txt", "cat src/a.py"),
        ("Ne jamais lire `src/`.", "cat src/a.py", "cat package.json"),
        ("Ne modifiez jamais `src/`.", "echo x >> src/a.py", "cat src/a.py"),
        ("No edites `src/`.", "echo x >> src/a.py", "cat src/a.py"),
        ("No modificar archivos fuera del proyecto.", "echo x > ~/x", "echo x > src/b.py"),
        ("不得直接向 `main` 推送代码。", "git push origin HEAD:main", "git push origin work"),
        ("禁止向 `main` 分支推送。", "git push origin HEAD:main", "git push origin work"),
        ("Never commit to `main` or `maint/*`.", "git switch main && git commit -m a", "git commit -m a"),
        ("Never commit to `main` or `maint/*`.", "git switch -c maint/1 && git commit -m a", "git commit"),
        ("Never merge branches.", "git merge main", "git merge --abort"),
        ("Stable toolchain only: never use `cargo +nightly`.", "cargo +nightly fmt", "cargo fmt"),
        ("`src/` and `mvnw` are read-only.", "sed -i s/a/b/ mvnw", "./mvnw verify"),
        ("Never use `-DskipTests` with `mvn`.", "mvn install -DskipTests", "mvn verify"),
        ("Never use `-DskipTests` with `mvn`.", "./mvnw -DskipTests=true verify", "mvn -DskipTests=false verify"),
    ],
)  # fmt: skip
def test_usual_sentences_are_enforced(
    sentence: str, forbidden: str, harmless: str, root: Path
) -> None:
    assert compile_rule(sentence, hard=False).check is not None
    assert judge_sentence(sentence, forbidden, root) == "deny"
    assert judge_sentence(sentence, harmless, root) == ""


@pytest.mark.parametrize(
    "sentence",
    [
        "Nunca leas `x.txt` si no es necesario.",
        "Nunca leer otros archivos en `gen/`.",
        "Never commit to `docs/*`.",
        "Backend only: never use `cargo +nightly`.",
        "Never use `gradlew`.",
    ],
)
def test_near_sentences_stay_advice(sentence: str) -> None:
    assert compile_rule(sentence, hard=False).check is None


@pytest.mark.parametrize(
    ("sentence", "path", "forbidden", "harmless"),
    [
        ("No default exports in `packages/`.", "packages/a/b.ts", "export default 1;", "export const a = 1;"),
        ("Never use `DB::table()`.", "src/a.php", "DB::table('users')", "DB::connection('users')"),
        ("No `from typing import Optional`; use `X | None`.", "src/b.py",
         "from typing import Any, Optional\n", "from typing import Any\n"),
        ("单个文件不得超过 500 行。", "src/b.py", "x = 1\n" * 501, "x = 1\n"),
    ],
)  # fmt: skip
def test_usual_sentences_about_code_are_enforced(
    sentence: str, path: str, forbidden: str, harmless: str, root: Path
) -> None:
    assert judge_text(sentence, path, forbidden, root) == "deny"
    assert judge_text(sentence, path, harmless, root) == ""
    if "packages" in sentence:
        assert judge_text(sentence, "src/b.ts", forbidden, root) == ""


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("cat > {root}/fix.sh <<'E'\nls\nE\nbash {root}/fix.sh", ""),
        ("cat > fix.sh <<'E'\nset -eu\nls\nE\nsh fix.sh", ""),
        ("cat > fix.sh <<'E' && bash fix.sh\nls\nE", ""),
        ("cat > fix.sh <<'E'\nls\nE\nchmod +x fix.sh && ./fix.sh", ""),
        ("cat > fix.sh <<'E'\nrm gen/a.ts\nE\nbash fix.sh", "deny"),
        ("cat > fix.sh <<'E'\nrm $1\nE\nbash fix.sh gen/a.ts", "deny"),
        ("cat > fix.sh <<E\n$X\nE\nbash fix.sh", "ask"),
        ("cat > fix.sh <<'E'\n. other.sh\nE\nbash fix.sh", "ask"),
        ("cat > fix.sh <<'E'\nls\nE\nmv other fix.sh\nbash fix.sh", "ask"),
        ("cat > fix.sh <<'E'\nls\nE\ncurl -o fix.sh https://a.example\nbash fix.sh", "ask"),
        ("python3 gen.py > fix.sh; bash fix.sh", "ask"),
        ("bash fix.sh", "ask"),
    ],
)
def test_a_script_that_the_call_writes_is_known(command: str, kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "gen"
    folder.mkdir()
    (folder / "a.ts").write_text("a\n")
    assert judge_command("deny write gen/**", command, tmp_path) == kind
