"""Sentences of many authors: which become checks, and that unknown words prevent it."""

import string

import pytest
from hilum_checks import compile_rule
from hilum_checks.expressions import count_matches
from hilum_checks.model import Content
from hypothesis import given
from hypothesis import strategies as st

# Each sentence is enforced under an ordinary heading.
ENFORCED = {
    # words that people put around a rule
    "Please don't ever edit the `package-lock.json` file by hand.": "denies writing package-lock.json by hand",
    "**IMPORTANT:** Never use `npm` or `yarn` — pnpm only": "denies the command `npm` or `yarn`",
    "Never run `docker compose down -v` - it deletes the volumes.": "denies the command `docker compose down -v`",
    "**NEVER use `npm install -g`** (global install pollutes system)": "denies the command `npm install -g`",
    "Never run `prisma migrate reset`. It destroys data.": "denies the command `prisma migrate reset`",
    "Do NOT use `--no-verify` to bypass git hooks.": "denies the command `--no-verify`",
    "Always use `bun` for scripts. Never use npm.": "denies the command `npm`",
    "Agents MAY NOT: Push directly to main": "denies the command `git push`",
    "Do not edit: `a.py`, `b.py`": "denies writing a.py, b.py",
    "Editing `a.py` is strictly forbidden.": "denies writing a.py",
    "The following files are read-only: `a.py`": "denies writing a.py",
    # instead of …
    "Use `pnpm` instead of `npm`.": "denies the command `npm`",
    "Use `uv` (not `pip`).": "denies the command `pip`",
    "use pnpm, never `npm`": "denies the command `npm`",
    # generated files
    "`dist/` is generated output. Do not edit `dist/` directly.": "denies writing dist by hand",
    "`package-lock.json` — generated, do not edit.": "denies writing package-lock.json by hand",
    "`src/api.ts` is generated. Do not edit it.": "denies writing src/api.ts by hand",
    "**NEVER directly edit .lng files** - they are auto-generated.": "denies writing *.lng by hand",
    "Do not edit `generate_docs.py`.": "denies writing generate_docs.py",
    # several things
    "Don't edit or delete files in `db/migrations`.": "denies writing db/migrations",
    "Never push to any remote or open a PR without explicit user approval.": "asks before the command `git push`",
    "Do not amend existing commits.": "denies the command `git commit --amend`",
    # only when asked
    "Never `git push` unless I tell you to do it": "asks before the command `git push`",
    "Create commits only when explicitly requested": "asks before the command `git commit`",
    "Do not commit unless the user explicitly requests a commit.": "asks before the command `git commit`",
    "Ask first before editing `Gemfile*` or `.github/workflows/*`.": "asks before writing Gemfile*",
    "Confirm before destructive operations (delete, drop)": "asks before the command `rm`",
    "NEVER modify these without my approval: Environment files: `.env*`": "asks before writing .env*",
    # commit messages, and commands that must run before others
    'Do NOT add "Co-Authored-By: Claude" lines': "denies a commit message that matches",
    "Never use emojis in commit messages.": "denies a commit message that matches",
    "Always run `make test` before committing.": "denies the command `git commit`",
    "Run `make test` before committing.": "denies the command `git commit`",
    "Run `npm run lint` and `npm run test-ci` before opening a PR": "denies the command `gh pr create`",
    "Run `make cover` to validate coverage locally before pushing.": "denies the command `git push`",
    "Format with oxfmt - run `pnpm prettify` in the workspace root before committing": "denies the command `git commit`",
    "Conventional commits required": "denies a commit message that does not match",
    "Use conventional commits: `feat:`, `fix:`, `refactor:`": r"denies a commit message that does not match /\A(?:feat|fix|ref",
    "Use conventional commits (`feat:`, `fix:`, `docs:`, etc.)": r"denies a commit message that does not match /^\w+(?:\(",
    "Use conventional commits, such as `feat:`, `fix:`, `docs:`": r"denies a commit message that does not match /^\w+(?:\(",
    "Prefix commits with `feat:`, `fix:`, `docs:` or similar.": r"denies a commit message that does not match /^\w+(?:\(",
    "Use conventional commits: `feat:`, `fix:`": r"denies a commit message that does not match /^\w+(?:\(",
    "Use conventional commit format: `<type>(<scope>): <description>`": "denies a commit message that does not match",
    "Do NOT commit with co-author": "denies a commit message that matches",
    "Never add agent/AI attribution to commits.": "denies a commit message that matches",
    # code
    "Do not use `console.log`.": r"denies writing text that matches /(?<![\w.$>:])console\.log(?!\w)/",
    "Never use `print()`.": r"denies writing text that matches /(?<![\w.$>:])print\(/",
    "Use structured `OSLog`, never `print()` in shipping code.": r"denies writing text that matches /(?<![\w.$>:])print\(/",
    "❌ NEVER use `std::fs` or `tokio::fs` directly": "denies writing text that matches",
    "Never block with `.Result`, `.Wait()`, `.GetAwaiter().GetResult()`.": "denies writing text that matches",
    "Use `Model::query()` instead of `DB::`.": "denies writing text that matches",
    "Integration tests use `Factory`. No `Task.Delay` — use deterministic fixtures.": "denies writing text that matches",
    # headings, reasons and what to use instead
    "DO NOT: Make changes to `.github/` configuration without explicit request": "asks before writing .github",
    "**Never use `npx`.** It is dangerous because it can fetch packages.": "denies the command `npx`",
    "Keep `bun.lock` as the only lockfile. Do not create `yarn.lock`.": "denies creating yarn.lock",
    "**Never `git add -A` or `git add .`** — Stage specific files only.": "denies the command `git add -A`",
    "Never change NuGet.config files unless explicitly asked to.": "asks before writing NuGet.config",
    "Do not merge pull requests.": "denies the command `gh pr merge`",
    # Chinese
    "禁止执行 `rm -rf /`、`git push --force`、`sudo`": "denies the command `rm -rf /`",
    "**绝对不要** 修改 `vendor/`，它是自动生成的": "denies writing vendor by hand",
    "不要直接提交到 `main` 分支": "denies the command `git commit`",
    "永远不要直接 push 到 main/master 分支，除非我明确指示。": "asks before the command `git push`",
    "修改 `schema.prisma` 前必须先问我": "asks before writing schema.prisma",
    "提交前必须运行 `pytest`": "denies the command `git commit`",
    "只有用户明确要求时才提交": "asks before the command `git commit`",
    "**包管理器: 仅限 bun** — 不要使用 npm/yarn/pnpm": "denies the command `npm`",
    "不要擅自提交，等用户确认": "asks before the command `git commit`",
    # words of languages, and code in some places only
    "Never use `any` types — use `unknown` instead": r"denies writing text that matches /(?m:(?:[:<,|&]",
    "No `any` (`@typescript-eslint/no-explicit-any`)": r"denies writing text that matches /(?m:(?:[:<,|&]",
    "Don't use `@ts-ignore` or `@ts-expect-error`": r"denies writing text that matches /@ts\-ignore",
    "No `unsafe` code": r"denies writing text that matches /(?m:\bunsafe",
    "Do not use `setTimeout` in tests.": r"denies writing text that matches /(?<![\w.$>:])setTimeout(?!\w)/ in test.*",
    "Don't use `.unwrap()` outside of tests": r"denies writing text that matches /\.unwrap\(/, except *.md",
    "Never use `env()` outside of config files.": r"denies writing text that matches /(?<![\w.$>:])env\(/",
    "No `fetch()` outside `src/api/`.": r"denies writing text that matches /(?<![\w.$>:])fetch\(/, except *.md",
    "Use pytest patterns, not `unittest.TestCase`.": r"denies writing text that matches /(?<![\w.$>:])unittest\.TestCase",
    "Disallowed: `std::fs` (use `uv-fs` instead)": "denies writing text that matches",
    "❌ Use `any`": r"denies writing text that matches /(?m:",
    "❌ `git push --force`": "denies the command `git push --force`",
    "No emojis in code or comments.": r"denies writing text that matches /\p{Emoji_Presentation}/",
    "Do not use em dashes.": "denies writing text that matches /—/",
    # options of commands
    "Never use `--no-build` with `dotnet test`": "denies the command `dotnet test --no-build`",
    "Never run `npm test` with `--watch`": "denies the command `npm test --watch`",
    "Always pass `--verbosity quiet` to `dotnet build` / `dotnet test`.": "denies the command `dotnet build` or",
    # package managers and programs
    "Use `bun`, never `npm`/`node`.": "denies the command `npm` or `node`",
    "**Only pnpm is supported** (yarn/npm will fail).": "denies the command `npm` or `yarn`",
    "Use pnpm exclusively.": "denies the command `npm` or `yarn`",
    "Package manager: `pnpm` (never npm or yarn)": "denies the command `npm` or `yarn`",
    "This project uses `pnpm`, not `npm`.": "denies the command `npm`",
    "`pnpm`, not npm": "denies the command `npm`",
    "These are explicitly forbidden across the repo: **npm/yarn** → use pnpm": "denies the command `npm` or `yarn`",
    "Use `bun test` instead of `jest` or `vitest`": "denies the command `jest` or `vitest`",
    "Do not invoke `pip` or `poetry` directly.": "denies the command `pip`",
    "Do not run the dev server.": "denies the command `npm run dev`",
    # what must run before
    "Before committing, run `make lint` and `make test`.": "denies the command `git commit`",
    "Before every commit: `make lint`": "denies the command `git commit`",
    "Run tests before committing: `npm test`": "denies the command `git commit`",
    "Before creating a pull request, make sure `make check` passes.": "denies the command `gh pr create`",
    "`make ci` must pass before merging.": "denies the command `gh pr merge`",
    "Never commit without running `make check` first": "denies the command `git commit`",
    "提交前执行 `pnpm lint` 和 `pnpm test`": "denies the command `git commit`",
    "コミット前に実行：`make test`": "denies the command `git commit`",
    # generated files
    "`src/a.ts` is generated by `make gen` from `b.yml`; do not edit it": "denies writing src/a.ts by hand",
    "Types are in `src/types.ts` (auto-generated, don't edit)": "denies writing src/types.ts by hand",
    "`a/b.html` is a read-only parity fixture.": "denies writing a/b.html",
    "`vendor/` is third-party code; don't modify": "denies writing vendor",
    # commits and Git
    "Commit messages must be in English": r"denies a commit message that matches /[\p{Han}",
    "提交信息使用中文": r"denies a commit message that does not match /\p{Han}/",
    "类型前缀：`feat:` / `fix:`": "denies a commit message that does not match",
    "Commit messages use prefixes: `render:`, `docs:`": "denies a commit message that does not match",
    "Follow the [Conventional Commits](https://www.conventionalcommits.org/) specification.": "denies a commit",
    "No AI attribution anywhere, including commits.": "denies a commit message that matches",
    "Do not mention Claude in commit messages": "denies a commit message that matches",
    "Do not add Co-Authored-By trailers": "denies a commit message that matches",
    "Never push to upstream.": "denies the command `git push upstream`",
    "Never create new branches.": "denies creating a branch",
    "Do not commit, push, open a pull request, tag, or release unless asked.": "asks before the command `git commit`",
    # approval
    "STOP and ask before editing `a.py`": "asks before writing a.py",
    "Do not change the application's dependencies without approval.": "asks before the command `pip install`",
    "You must only create documentation files if explicitly requested by the user.": "asks before creating *.md",
    "Never modify CI workflows without approval": "asks before writing .github/workflows/**",
    # lists of which only some things are understood
    "Never use bare `python` or `pip`.": "denies the command `python` or `pip`",
    "Never commit secrets or `.env` files": "denies writing text that matches /(?:-----BEGIN",
    "Never push to `main`, edit `a.py`, or guess.": "denies the command `git push`",
    "Do not edit `a.py`, `b.py` or anything generated": "denies writing a.py, b.py by hand",
    "Never edit, stage, or commit `a.py`.": "denies writing a.py, the command `git add * a.py`",
    "Do not use em dashes or promotional filler.": "denies writing text that matches /—/",
    "Never run `npm publish`, register runners, or join networks": "denies the command `npm publish`",
    # files that are not committed
    "Do not commit files under `specs/`.": "denies the command `git add * specs`",
    "Never commit `build/` output.": "denies the command `git add * build`",
    "请勿提交 `.env`": "denies the command `git add * .env`",
    "Output goes to `target/`; never commit that directory.": "denies the command `git add * target`",
    "`master` is the default branch — never commit directly to it.": "denies the command `git commit`",
    "Never commit `fdescribe` or `fit`.": "denies writing text that matches /(?m:^",
    # what must run before, among other instructions
    "Always run `cargo test` before pushing and write down what was odd.": "denies the command `git push`",
    "Create a branch, run `make test` before opening a PR.": "denies the command `gh pr create`",
    "Run `make lint` before every commit to keep the style consistent.": "denies the command `git commit`",
    "Format code with `ruff format` before committing.": "denies the command `git commit`",
    "Before committing, make sure `tools/format.js` is run to format your code": "denies the command `git commit`",
    "Before submission, all changes must pass local checks: `make lint`, `make test`": "denies the command `gh pr create`",
    "Run `make test` before committing. If it fails, look at the log.": "denies the command `git commit`",
    # instructions before a prohibition
    "Create a branch, never push to `main`.": "denies the command `git push`",
    "ONLY use uv, NEVER pip": "denies the command `pip`",
    "Package manager: pnpm (NOT npm, NOT yarn)": "denies the command `npm` or `yarn`",
    # issues, branches, history
    "Never create an issue.": "denies the command `gh issue create`",
    "Never create issues or PRs.": "denies the command `gh issue create` or `glab issue create`",
    "Do not close pull requests.": "denies the command `gh pr close`",
    "Never delete branches.": "denies the command `git branch -d`",
    "Never rewrite published history.": "denies the command `git push --force`",
    "Branch names must start with `claude/`": "denies creating a branch, except `claude/*`",
    "Do not `git commit` anything unless instructed to do so.": "asks before the command `git commit`",
    "Never make any commits or pushes without first requesting if you can.": "asks before the command `git commit`",
    "Avoid adding new top-level packages without discussion.": "asks before the command `pip install`",
    "NEVER use --no-verify when committing.": "denies the command `--no-verify`",
    # commit messages
    "Keep commit subjects under ~72 characters.": r"denies a commit message that matches /\A[^\n]{72,}/",
    "Commit subjects use an area prefix: `render:`, `docs:`": "denies a commit message that does not match",
    "Follow Conventional Commits with imperative summaries.": "denies a commit message that does not match",
    # code
    "Never use `.unwrap()` except in tests - always handle errors": r"denies writing text that matches /\.unwrap\(/, except",
    "No emojis, in code, docs, commits, or issues.": r"denies writing text that matches /\p{Emoji",
    "No default exports": "denies writing text that matches /(?m:^",
    "Don't leave `console.log` statements.": "denies writing text that matches",
    "Never use bare `except:`": "denies writing text that matches /(?m:^",
    "No `@author` tags, no wildcard imports": "denies writing text that matches /@author",
    "Do not mix in npm or yarn.": "denies the command `npm` or `yarn`",
    "Always use pnpm for package management.": "denies the command `npm` or `yarn`",
    "Never run `cargo test` without `--workspace`.": "denies the command `cargo test`, except",
    "Don't use interactive commands (`git rebase -i`, `git add -i`).": "denies the command `git rebase -i`",
    "Never install packages with pip; use `uv add`.": "denies the command `pip install`",
    # what pull requests and commits must have
    "PRs must pass `make ci` before merge.": "denies the command `gh pr merge`",
    "All PRs must pass `cargo fmt --check` and `cargo clippy`.": "denies the command `gh pr create`",
    "`make style` should be run as the final step before opening a PR": "denies the command `gh pr create`",
    "All commits must be signed off (`git commit -s`).": "denies the command `git commit`, except",
    "Commits must include a `Signed-off-by` line.": "denies the command `git commit`, except",
    # approval
    "Wait for explicit user confirmation before running `git push`.": "asks before the command `git push`",
    "Ask before: deleting files, adding deps, pushing.": "asks before deleting files",
    "Ask first: new dependencies, schema changes": "asks before the command `pip install`",
    "Stop and ask the user if any task requires: pushing to `main`": "asks before the command `git push`",
    "Do not deploy, publish, or release without approval.": "asks before the command `npm run deploy`",
    "Do not create commits, branches, or PRs unless told.": "asks before the command `git commit`",
    # what a name is, in another part of the rule
    "Leave `vendor/` untouched.": "denies writing vendor",
    "Keep secrets in `.env` (never commit).": "denies the command `git add * .env`",
    "Generated files live in `src/gen/`; do not edit by hand.": "denies writing src/gen by hand",
    "Never push to `main`: always use a branch.": "denies the command `git push`",
    # commands and code without quotes
    "Run cargo fmt and cargo clippy before committing.": "denies the command `git commit`",
    "Never run npm install.": "denies the command `npm install`",
    "Do not use git add -A.": "denies the command `git add -A`",
    "Never use console.log in production code.": "denies writing text that matches",
    "Do not use Directory.SetCurrentDirectory in tests as it can cause side effects.": "denies writing text",
    "Do not add `UseBase()` in .NET.": "denies writing text that matches",
    # branches, drafts, lines
    "Never work on `main`.": "denies the command `git commit`",
    "Always open PRs as drafts.": "denies the command `gh pr create` or `gh pr new`",
    "Lines must not exceed 100 characters.": r"denies writing text that matches /(?m:^[^\n]{101,})",
    "Always use `php artisan make:*` with `--no-interaction` to create new files": "denies the command",
    "The workflow handles it automatically — do not create a GitHub release.": "denies the command `gh release create`",
    "These rules are not negotiable: **Commits**: conventional-commit messages": "denies a commit message",
    "Name tests well. For slow code, add data. Keep it small. Run `make x` before pushing.": "denies the command `git push`",
    "Use the branch of the task. Add tests for bugs, e.g. `a.py`. Never force-push.": "denies the command",
    # files, imports and words around them
    "Keep `.env` files out of git.": "denies the command `git add * .env`",
    "Keep `.env` untracked.": "denies the command `git add * .env`",
    "`src/version.py` is generated and must not be committed.": "denies the command `git add * src/version.py`",
    "`.env` files are gitignored and never committed": "denies the command `git add * .env`",
    "Never commit `.env`, `.session`, `*.cookies`, or `.venv/`.": "denies the command `git add * .env`",
    "Do NOT commit Markdown files (`.md` files)": "denies the command `git add * *.md`",
    "Never edit lock files by hand.": "denies writing",
    "Never edit snapshots by hand.": "denies writing *.snap",
    "Never create files outside `src/`.": "denies creating files by hand, except src",
    "Never modify the `legacy/` module.": "denies writing legacy",
    "Never import from `lodash`.": "denies writing text that matches /(?m:(?:^",
    "No relative imports.": "denies writing text that matches /(?m:^",
    "Never add `// eslint-disable` comments.": "denies writing text that matches",
    "Do not run long-running commands such as `npm run dev`.": "denies the command `npm run dev`",
    "Don't forget to run `yarn format` before committing.": "denies the command `git commit`",
    "Make sure that `make lint` is clean before merging.": "denies the command `gh pr merge`",
    "No commits to `main` without a PR.": "denies the command `git commit`",
    "Do not auto-commit.": "asks before the command `git commit`",
    "Follow the existing Conventional Commit pattern (`fix(auth): …`).": "denies a commit message",
    # other words for approval
    "Push only with explicit approval.": "asks before the command `git push`",
    "Only push on request.": "asks before the command `git push`",
    "Never push before I approve.": "asks before the command `git push`",
    "Do not commit unless directed.": "asks before the command `git commit`",
    "Never push without approval in this chat.": "asks before the command `git push`",
    "Never auto-commit or push without confirmation": "asks before the command `git commit`",
    "Never `git push` without an explicit instruction to push.": "asks before the command `git push`",
    "Do not generate documentation unless asked.": "asks before creating *.md",
    # other sentences that limit nothing
    "Prefer Eloquent over raw queries. Use `Model::query()` instead of `DB::`. Use eager loading.": "denies writing text",
    "Use `// Act` comments when helpful. Never add `// Arrange`.": "denies writing text that matches",
    "Never use `npm`. Prefer `pnpm`.": "denies the command `npm`",
    # reading first
    "**Read `AGENTS.md` first.**": "denies writing files by hand, except .git before",
    "Read `docs/a.md` before editing anything.": "denies writing files by hand, except .git before",
    "Read the root `CLAUDE.md` first.": "denies writing files by hand, except .git before",
    "Always read `CONTRIBUTING.md` first.": "denies writing files by hand, except .git before",
    "Read [the guide](docs/guide.md) before changing the repository.": "denies writing files by hand, except .git before",
    "Before editing files in `api/`, read `api/README.md`.": "denies writing api before reading api/README.md",
    "Before working on anything in `web/`, read `web/A.md` if it isn't already in context.": "denies writing web before",
    "Read `docs/testing.md` before writing tests.": "denies writing test.*",
    "Before making changes, read and follow [A](A.md) and the relevant sections of [B](B.md).": "denies",
    "修改代码前先阅读 `docs/a.md`": "denies writing files by hand, except .git before",
    # before writing, finishing, submitting
    "Inspect `git status -sb` before editing and preserve unrelated work.": "denies writing files by hand, except .git",
    "Confirm the current status with `git status` before editing.": "denies writing files by hand, except .git before",
    "Before you edit `a.py`, run `make x`.": "denies writing a.py before the command `make x` has",
    "Run `pre-commit run --all-files` before submitting (hooks: black, yamllint, etc.).": "denies the command",
    "Run `make style` before you finish.": "denies a final answer before the command `make style` has",
    "ALWAYS run `cargo fmt` and `cargo test` before considering a task complete.": "denies a final answer before the",
    "Before declaring work complete, run `pytest -q`.": "denies a final answer before the command `pytest -q` or",
    "Every commit must pass `make ci`.": "denies the command `git commit` or `git commit-tree` or",
    "All tests must pass before committing (`npm test`).": "denies the command `git commit` or `git commit-tree` or",
    # after changes
    "After modifying code, run `graphify update .` to keep the graph current (AST-only).": "denies a final answer before",
    "After editing Go files, run `crlfmt -w <filename>.go` to format them.": "denies a final answer before the command",
    "Run `pnpm generate` after changing `schema.prisma`.": "denies a final answer before the command `pnpm generate` has",
    "Whenever you change `a.proto`, run `make proto`.": "denies a final answer before the command `make proto` has",
    "When you modify `src/api/`, update `docs/api.md`.": "denies a final answer without writing docs/api.md since",
    "After changes run: npm run lint (and `make b` if `b/` changed).": "denies a final answer before the command",
    # names
    "Branch names should follow: `feature/<short-description>` or `fix/<short-description>`": "denies creating a branch",
    "Branch per story: `td/<story-id>-<slug>` (e.g. `td/501-file-discovery`).": "denies creating a branch, except `",
    "Branch naming format: `COM-123-short-title`": "denies creating a branch, except `",
    "Work on `codex/<task-name>` branches": "denies creating a branch, except `",
    "分支命名：`feature/xxx`、`fix/xxx`": "denies creating a branch, except `",
    "Commit messages should be clear and follow conventions (`feat:` / `fix:` / `chore:` prefix).": "denies a commit",
    "Commit subject: `TD-501: resolve the order`": r"denies a commit message that does not match /^TD-\d+: ?\S/",
    "Commit message form: `<JIRA-ID>: <description>`": r"denies a commit message that does not match /^[^\s:][^:\n]*:",
    "All commit messages must start with `[agent]`.": "denies a commit message that does not match",
    "Commits: `<module>: concise message (#issue)`": r"denies a commit message that does not match /^[^\s:][^:\n]*:",
    "Commit types: feat, fix, docs, chore": "denies a commit message that does not match",
    "Include the issue number in commit messages, e.g. `#123`.": "denies a commit message that does not match",
    "Commit messages must not end with a period.": r"denies a commit message that matches /\A[^\n]*\.[",
    "Follow conventional commits for PR titles": "denies a pull request title that does not match",
    "Use semantic PR titles: `<type>(<scope>): <description>`": "denies a pull request title that does not match",
    "PR title requires a ticket (e.g. `[ABC-1][SQL] Title`).": "denies a pull request title that does not match",
    "Pull requests must target `develop`.": "denies the command `gh pr create --base` or",
    "Test files must end with `Test.php` suffix": r"denies new files whose names do not match /Test\.php$/ in",
    "Test files must be named `test_*.py`.": r"denies new files whose names do not match /^test_.*\.py$/ in",
    "Use `kebab-case.ts` for new TypeScript filenames.": "denies new files whose names do not match",
    "Every new `.py` file must start with `from __future__ import annotations`.": "denies files without text that matches",
    # programs
    "**Primary tool**: OpenTofu (`tofu`) not Terraform": "denies the command `terraform`",
    "Use `docker compose`, not `docker-compose`.": "denies the command `docker-compose`",
    "Use `uv run`. Never run `python` directly.": "denies the command `python`, except `uv run` or `uvx` or",
    "Always use `just test` instead of `pytest`.": "denies the command `pytest` or `py.test` or",
    "使用 `uv run` 运行所有 Python 命令": "denies the command `python` or `python3`, except `uv run` or",
    "DO NOT use `tsc` directly.": "denies the command `tsc`, except `uv run` or `uvx` or",
    "Never run bare `tsc`; use `yarn typecheck` from the repo root.": "denies the command `tsc`, except `uv run` or",
    "Use `bun` for JavaScript/TypeScript package work.": "denies the command `npm install` or `npm i` or `npm ci` or",
    "Do not use `-j` argument with ninja - let it decide.": "denies the command `ninja -j`",
    "GitOps原则，Flux管理，不准执行`kubectl apply`": "denies the command `kubectl apply`",
    "Never run destructive system commands (`rm -rf /`, `DROP TABLE`, force-push to main).": "denies the command `rm -rf /`",
    "Never run deployment commands (`mise run deploy`, or anything that changes production).": "denies the command",
    "Do not run `brew install`, `apt install`, or any other manager.": "denies the command `brew install` or `apt install`",
    "Don't commit with --no-verify.": "denies the command `--no-verify` or `git commit -n`",
    "Never force-push to shared branches.": "denies the command `git push --force` or `git push -f` or",
    "Do not run database migrations.": "denies the command `alembic upgrade` or `alembic downgrade`",
    "Do not modify git config.": "denies the command `git config`, except `git config --get`",
    "Never install packages globally.": "denies the command `npm install -g` or `npm i -g` or",
    "Never approve PRs.": "denies the command `gh pr review --approve` or",
    "Open PRs as drafts.": "denies the command `gh pr create` or `gh pr new`",
    # approval
    "Always ask before running tests.": "asks before the command `pytest` or `npm test` or `npm t` or",
    "Do not upgrade dependencies without permission.": "asks before the command `npm update` or `npm upgrade` or",
    "Never deploy without approval.": "asks before the command `npm run deploy` or `pnpm run deploy`",
    "**NEVER commit code directly** - Always ask before committing": "asks before the command `git commit` or",
    "Never amend commits. Only amend if the user explicitly says so.": "asks before the command `git commit --amend`",
    "Never delete files without approval. If something appears unnecessary, ask before removing it.": "asks before",
    # secrets, files and code
    "Never commit secrets.": "denies writing text that matches /(?:-----BEGIN [A-Z",
    "No hardcoded secrets": "denies writing text that matches /(?:-----BEGIN [A-Z",
    "禁止硬编码密钥": "denies writing text that matches /(?:-----BEGIN [A-Z",
    "Do not commit: `.env`, API keys, model weights, large logs": "denies the command `git add * .env` or",
    "Don't commit build artifacts (`dist/`, `build/`).": "denies the command `git add * dist` or `git add * dist/` or",
    "All file operations must stay within this repository.": "denies writing files outside the workspace",
    "Only modify files inside this repository.": "denies writing files outside the workspace",
    "Do not modify existing migrations.": "denies changing and deleting **/migrations/**,",
    "`a.py` is a fixture. Do not edit it, even when a test fails.": "denies writing a.py",
    "Files must not exceed 500 lines.": "denies writing text that matches",
    "Lines must be at most 120 characters.": r"denies writing text that matches /(?m:^[^\n]{121,})/ in",
    "Never commit `.only`.": r"denies writing text that matches /\.only(?!\w)/, except",
    "No `.only` in committed tests.": r"denies writing text that matches /\.only(?!\w)/, except",
    "Never use `import *`.": "denies writing text that matches",
    "Never use `except Exception: pass`.": "denies writing text that matches",
    "Do not use `@pytest.mark.skip`.": "denies writing text that matches",
    "Do not leave TODO or FIXME comments in committed code.": "denies writing text that matches",
    "Never use WebFetch.": "denies the tool web_fetch",
    "Do not use Directory.SetCurrentDirectory in tests as it breaks when tests run concurrently.": "denies writing text",
    "Use `pnpm` for package management.": "denies the command `npm install` or `npm i` or `npm ci` or",
    "Do NOT commit code directly to `main`, `develop`, or protected branches": "denies the command `git commit` or",
    "Never commit to the default branch.": "denies the command `git commit` or `git commit-tree` or",
    "Never commit .env or debugger": "denies the command `git add * .env`",
    "No bare `except`.": r"denies writing text that matches /(?m:^\s*except\s*:)/ in",
    # other languages
    "Niemals `npm` verwenden.": "denies the command `npm`",
    "`dist/` nicht bearbeiten.": "denies writing dist by hand",
    "No editar archivos en `types/` ni `hooks/`.": "denies writing types, hooks",
    "Nunca hacer push a `main` sin permiso.": "asks before the command `git push` or `git send-pack` or",
    "Não editar `dist/`.": "denies writing dist by hand",
    "Ne jamais modifier `vendor/`.": "denies writing vendor",
    "Никогда не используй `npm`.": "denies the command `npm`",
    "`vendor/` 파일을 수정하지 마세요.": "denies writing vendor",
    "`main`에 직접 푸시하지 마세요.": "denies the command `git push` or `git send-pack` or",
    "commit은 사용자가 요청하거나 승인한 경우에만 수행": "asks before the command `git commit` or `git commit-tree` or",
    "모든 커밋 메시지에 `[{ticket_id}]` 접두사 포함": "denies a commit message that does not match",
    "`dist/`を編集しないこと。": "denies writing dist by hand",
    "承認なしにコミットしないでください": "asks before the command `git commit` or `git commit-tree` or",
    # completion, usual situations, lists
    "Work is NOT complete until `make test` succeeds.": "denies a final answer before the command `make test` has",
    "When pushing updates to the PR, never force push.": "denies the command `git push --force` or `git push -f` or",
    "When working with a branch, do not use rebase or amend.": "denies the command `git rebase` or `git pull --rebase` or",
    "FORBIDDEN: `uv pip install`, `@latest` syntax": "denies the command `uv pip install`",
    "Never create a new branch for any task or plan.": "denies creating a branch",
    "**No unnecessary files** - Don't create docs/README unless explicitly requested": "asks before creating *.md,",
    "Never edit snapshot files or snapshot bodies by hand.": "denies writing *.snap, **/__snapshots__/** by hand",
    "Legacy docs (do not edit): `A.md`, `B.md`": "denies writing A.md, B.md",
    "`CLAUDE.md` is a symlink to `AGENTS.md` - always edit `AGENTS.md`.": "denies writing CLAUDE.md by hand",
    "`public/` - compiled output (do not edit directly)": "denies writing public by hand",
    "**Ask before git operations** - Request confirmation before `git add`, `git push`": "asks before the command",
    "**Typecheck is critical before committing** - always run `pnpm typecheck`": "denies the command `git commit` or",
    "Use `yarn`, not `npm`, for repo commands.": "denies the command `npm`",
    "Do not call `sqlite3.connect` directly.": "denies writing text that matches",
    "Don't import `@wordpress/*` in test files": "denies writing text that matches",
    "Always `terraform plan` before `terraform apply`": "denies the command `terraform apply` or `tofu apply` before",
    "`docs/a.md` - READ THIS FIRST.": "denies writing files by hand, except .git before reading",
    "Always ask the user's approval to run tests": "asks before the command `pytest` or `npm test` or `npm t` or",
    "Do not write tests unless the user requests them.": "asks before creating test.*",
    "Never add yourself or an AI tool as a co-author.": "denies a commit message that matches",
}  # fmt: skip
ADVICE = """Never run `npx prisma generate` standalone.
`dist/` is generated and not committed.
`dist/` is built in CI and must not be committed by hand.
Never push without an instruction to deploy.
Never push without approval to `main`.
Keep `app.py` untracked by the profiler.
Never run `git reset --hard` on VPS without backing up `a.db` first
Do not run `npm run dev` in `web/`.
Never amend commits after hook failures
Stage specific files, avoid `git add -A`
Don't edit `a.py`, edit `b.py`.
Don't edit `a.py` and run `make gen`.
Don't edit `index.html` between the BUILD markers.
Only edit `en.json` directly — other locales are Crowdin-sourced.
Do not commit changes to `package-lock.json`.
Never create tests in `src/`.
Don't add `console.log` to `a.ts`.
Do not change the version in `pyproject.toml`.
Never run as root
Tests must not access the network.
Use `uv run python3` instead of `python3`.
Production: never edit `a.py`.
Never run `pytest`; use `uv run pytest` instead.
Do not add code to `utils.py`.
Users must not delete `data/`.
Should we use `pnpm`, not `npm`?
Do not create modules.
Do not commit new files.
You don't need to run `npm install`.
`vendor/` is not read-only.
We looked for the bug in the logger; console.log is not it.
The slow part is the parser and `eval()` is not it.
We checked the parser; `git push` is not it.
The `eval()` call isn't the culprit.
Not all tests run `pytest`.
Never edit files.
Do not modify existing code.
`make test` is run before committing.
Generally, run `make test` before committing.
Always run `npm install` before running `npm test`.
Only run `npm run build` when you're not certain.
Never touch `test*.jsonl` until final numbers.
Components never touch `HttpClient`.
**Never read outside the project** - every file read passes `path_in_project`
Never use `useEffect` for data fetching.
Never use `Node.js`.
Never use `eval()` when parsing input.
使用 `uv` 管理依赖，不要向全局环境直接 `pip install`。
不要顺手修改任务无关文件
禁止在没有 Spec 的情况下新增页面
Use `Logger` in services (not `console.log`).
`time.monotonic()` for durations, not `time.time()`.
`npm test`, not `npm t`
Don't use `setTimeout` in components.
Use `time_machine` for slow tests. Do not use `datetime.now()`.
In tests, mocks are fine. Never use `any`.
Never use `var`. If needed, add a comment.
Never use `any` unless a library forces it.
Put tests in `tests/` (do not edit).
When adding routes, update `routes.ts` (generated, do not edit).
`src/a.ts` is generated by `make gen`.
Before committing to `main`, run `make x`.
Before committing, consider running `make x`.
Run `make lint` before committing if you changed code.
Use only `pnpm` for publishing.
Only use `npm` in `web/`.
Use pnpm, not npm, in `web/`.
Pass `--foo` to `make test`.
❌ Bad: `pip install x`
No emojis in the UI.
Write docs in English.
Commit messages in English or Chinese.
代码注释使用中文
Branch prefixes: `feat:`, `fix:`
PR titles use `feat:`, `fix:` prefixes
Do not update dependencies.
Avoid `DB::`; prefer `Model::query()`.
Never reset the database.
Never run `npm test` with `--watch` in CI
Never add names for `a/` or `b/`.
Never include names in pull requests, commits, or code.
Never use `foo()`, `bar()`, or helpers in tests.
Never edit `a.py`, but new files are fine.
Do not use `a.py` or other files without need.
No docs, emojis or commits in issues.
Never push directly to `OWNER/repo`.
Run `make x` before committing, in `web/`.
Run `make x` before committing, especially for large changes.
Keep subjects under 5 words.
Avoid `git add -A`.
Emails must have subjects under 72 characters.
Follow Conventional Commits where possible.
PR titles must follow Conventional Commits with a scope.
Branch names like `feature/x` are fine.
Logs go to `a.log` and `b.log`; never commit it.
Components import from `x`, never from `y`.
Never use `--no-verify` when a hook is broken.
When planning, write notes. Do not run `git commit`.
Do not mix `npm` and `yarn`.
ALWAYS: `uv` (lowercase)
Never edit `a.py` in `b/`, or `c.py`.
Ask before: anything.
Always use `uv run` for scripts.
PRs must pass review.
Wait for `make test` before pushing.
Never commit it.
Use `rg` instead of `grep`.
Logs are in `a.log`. Users may not push it.
You must make test data before committing.
We run npm test in the pipeline.
Never work on `legacy/`.
Users must not work on drafts.
Tests go to the server; go test it.
Do not import from `../b`.
Run checks such as `make lint` before committing.
Do not create modules in `src/`.
Do not update packages in `package.json`.
No commits to `main` without tests.
Git history uses Conventional Commits.
Run `make test` or `make fast` before committing.
Never commit half-finished work or `a.py` changes you do not understand.
Do not run tests or `make build` on Windows.
Never use `foo()` or helper functions in hot loops.
Do not push to `main` or open PRs for experimental work.
Never edit `a.py` or rename exports without updating `b.py`.
Do not delete files or branches that you did not create.
Never delete branches that are protected.
Never create an issue for typos.
Do not create issues or PRs in other repositories.
Don't leave TODO comments without a ticket.
Never commit `package-lock.json` changes unrelated to your task.
Do not commit `dist/` unless you are releasing.
Do not commit changes to `uv.lock` in feature branches.
Do not add dependencies to `core`.
Never import from `utils` in `core`.
Never import `React`.
Do not use default exports for components.
No default exports except for pages.
Keep PR titles under 72 characters.
Keep commit messages short.
Limit lines to 72 characters in commit bodies.
Lines in docs must not exceed 100 characters.
Branch names should start with the ticket number.
Branch names must start with `feature/` when adding features.
Use the `feature/` prefix for branch names.
Always open a PR.
Always open draft PRs for risky changes.
All commits must be signed.
Sign off with your name.
Ask before doing anything risky.
Stop and ask if tests fail.
Wait for the build before pushing.
Confirm that `make test` passes before committing.
Always use `npm` scripts.
Always use npm in `web/`.
Always use `yarn` instead of editing files.
Use pnpm for the frontend, never npm in the backend.
Run `make lint` before committing Python code.
Run `make e2e` before pushing UI changes.
Before pushing to `main`, run `make all`.
Run `npm test` before committing, unless only docs changed.
Run `make test` before committing and, if it is slow, `make fast`.
Run either `make a` or `make b` before pushing.
Run `make a` (or `make b`) before pushing.
Optionally run `make x` before pushing.
Try to run `make x` before pushing.
Consider running `make x` and `make y` before pushing.
The hook runs `make x` before committing.
CI runs `make x` before merging.
You can run `make x` before committing.
It is good practice to run `make x` before committing.
If unsure, run `make x` before committing.
After editing `a`, run `make x` before committing.
In `web/`, run `npm test` before committing.
Format `web/` with `prettier --write web` before committing.
Never rewrite history of others.
Do not close the connection.
Never comment on personal matters.
Do not clone objects.
Do not clone the repository twice.
Never stage partial hunks.
Do not merge duplicated code.
Never merge without tests.
Do not tag people.
Do not release memory twice.
Never push state into the store.
Do not push values to `main`.
Never commit transactions in tests.
Do not commit the transaction.
Never open issues in the UI.
Do not add issues to the backlog without asking.
No issues were found.
No emojis in commit messages, except ✅.
Do not write comments in code.
Never use wildcard imports in production code.
No inline styles in emails.
Leave `main` untouched.
Keep `a.py` and `b.py` in sync.
Never work on `feature/x` and `main` at once.
Do not use git.
Never run git commands in `vendor/`.
Avoid installing packages without checking `requirements.txt`.
Avoid commits without tests.
Do not use draft PRs.
Do not check in code that breaks the build.
Do not check in with the user.
Check in with the user before pushing.
Never edit files such as `a.py` by script.
Never send `a.json` to external servers.
Do not read `a.md` before `b.md`.
Never run `make x` before `make y`.
PRs must pass code review and `make ci`.
Code must pass review before merging.
Don't commit to a schedule.
Never leave `main` broken.
Keep `dist/` out of the search index.
Never propose changes to `a.py`.
Do not submit forms.
Do not draft replies.
Never use `git add .` in `web/`.
Do not use the `--force` option lightly.
Never run `cargo test` without a filter.
Never use `any` with `b.ts`
Read the logs first.
Read `a.md` or `b.md` first.
Read `a.md` before touching the billing engine.
Read `a.md` if you are new.
Check `status` before starting.
Consider reading `a.md` first.
Run `make x` before running tests.
Run `make x` before large changes.
Run Biome before pushing
After editing `a.py`, run `make x` if needed.
After editing `a.py`, consider running `make x`.
After the release, run `make x`.
When tests fail, run `make x`.
When you edit `a.py`, think about `b.py`.
When adding routes, update `routes.ts` or `main.ts`.
`pnpm install` - Install dependencies for all packages
Branch naming for issue fixes: `fix-<issue-number>`
Feature branches must be named `feature/<ticket>`.
Branches such as `feature/x` are merged daily.
Commits should be small.
Commit often: `a.py` first.
Test files live in `tests/`.
Tests go in `tests/`, named well.
File names use kebab-case.
Never log secrets.
Rotate secrets often.
Secrets are stored in `.env`.
Never use `print` to debug.
Do not use `Task.detached` to escape isolation.
Use `pnpm` for the frontend.
Use `uv run` for scripts in `tools/`.
Never edit migrations that are merged.
Do not upgrade the database.
Do not write to users without asking.
Files stay under version control.
Keep files small.
Never run the full test suite; run single files.
Use `cat`, not `bat`.
Never commit secrets to memory for fun.
PRs must target small changes.
Files must not exceed 500 lines in `web/`.
Never use `python` directly in `web/`.
Use `pnpm` for package management in `web/`.
Do not run the app in production
All operations must stay within this project's style.""".splitlines()


def test_a_plain_sentence_is_enforced_under_any_heading() -> None:
    for sentence, says in ENFORCED.items():
        check = compile_rule(sentence, hard=False).check
        assert check is not None, sentence
        assert check.summary.startswith(says), sentence


def test_what_is_not_understood_stays_advice() -> None:
    compiled = {sentence: compile_rule(sentence, hard=False).check for sentence in ADVICE}
    assert {sentence: check for sentence, check in compiled.items() if check is not None} == {}


PLAIN = ("never edit `a.py`", "do not run `make deploy`", "don't push to `main`")
BEFORE = ("", "- ", "1. ", "**", "Please ", "Note: ", "IMPORTANT: ", "⚠️ ", "You must: ")
AFTER = (
    "",
    ".",
    "!",
    " - it is frozen.",
    " (it broke twice)",
    " ever",
    " at all.",
    "; use the form",
)


@given(st.sampled_from(PLAIN), st.sampled_from(BEFORE), st.sampled_from(AFTER))
def test_words_around_a_rule_do_not_change_the_check(plain: str, before: str, after: str) -> None:
    closing = before if before == "**" else ""
    decorated = compile_rule(f"{before}{plain}{after}{closing}", hard=False)
    assert decorated.check == compile_rule(plain, hard=False).check is not None


WORDS = st.text(string.ascii_lowercase, min_size=4, max_size=12).map(lambda word: f"q{word}x")


@given(st.sampled_from(PLAIN), WORDS, st.integers(1, 20))
def test_an_unknown_word_turns_a_rule_into_advice(plain: str, word: str, at: int) -> None:
    words = plain.split()
    words.insert(min(at, len(words)), word)
    assert compile_rule(" ".join(words), hard=False).check is None


@given(st.text(max_size=300))
def test_any_text_compiles(text: str) -> None:
    compile_rule(text, hard=True)
    compile_rule(f"never edit {text}", hard=True)
    compile_rule(f"禁止{text}", hard=True)


@pytest.mark.parametrize(
    ("word", "code", "other"),
    [
        ("any", "let x: any = 1;\n", "// Accepts any value.\nconst many = 1;\n"),
        ("any", "type A = Record<string, any>\n", "const company = 'any, or all';\n"),
        ("var", "  var a = 1;\n", "const variable = 1; // var or let\n"),
        ("assert", "    assert x == 1\n", "self.assertEqual(x, 1)  # we assert this\n"),
        ("unsafe", "unsafe { read(p) }\n", "// This would be unsafe here.\n"),
        ("fit", "fit('adds', () => {})\n", "model.fit(x)\n"),
        ("print()", "    print(x)\n", "pprint(x)\nlog.print(x)\n"),
        ("setTimeout", "setTimeout(f, 1)\n", "mySetTimeout(f)\n"),
    ],
)
def test_a_word_of_a_language_is_found_only_where_it_is_code(
    word: str, code: str, other: str
) -> None:
    check = compile_rule(f"Never use `{word}`.", hard=False).check
    assert check is not None
    ((_, content),) = check.parts
    assert isinstance(content, Content)
    assert count_matches(content.expression, code)
    assert not count_matches(content.expression, other)
