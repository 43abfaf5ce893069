import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import sonorant.features.shards
from sonorant.cli.main import main
from sonorant.errors import SonorantError
from sonorant.features.feature_store import ARRAYS, FeatureStore
from sonorant.features.store import StoreConfig, open_store
from sonorant.features.store.bucket_cache import Cache
from sonorant.features.store.folder import Folder
from sonorant.features.store.marks import KEYS, mark, mark_name, packed, unpacked
from sonorant.features.store.shard_files import check_written, find_shards, object_name, write_shard
from sonorant.features.store.store import Store
from testbed.synthetic_corpus import TINY, write_corpus
from tests.support.object_store import disturbed, object_store
from tests.support.stores import damage, object_of


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with object_store(tmp_path_factory.mktemp("bucket") / "s3") as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        yield f"s3://{running.bucket}"


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return str(tmp_path / "store")
    return f"{request.getfixturevalue('bucket')}/{tmp_path.name}"


def kept(store: Store, data: bytes) -> str:
    name = object_name(hashlib.sha256(data).hexdigest())
    with store.draft() as folder:
        (folder / "new").write_bytes(data)
        store.put(folder / "new", name)
    return name


def test_what_was_put_is_what_is_read(place: str, tmp_path: Path) -> None:
    store = open_store(place)
    assert store.read("objects/none") is None
    assert not store.fetch("objects/none", tmp_path / "none")
    assert list(store.entries("objects")) == []
    data = os.urandom(3_000_000)
    name = kept(store, data)
    assert store.read(name) == data
    assert store.fetch(name, tmp_path / "fetched") and (tmp_path / "fetched").read_bytes() == data
    (entry,) = store.entries("objects")
    assert (entry.name, entry.size) == (name, len(data))
    assert abs(entry.modified - time.time()) < 3600
    assert store.create("shards/a.json", b"one") == store.create("shards/a.json", b"two") == b"one"
    for _ in range(2):
        store.delete(name)
    assert store.read(name) is None


def test_a_cache_holds_no_more_than_it_may_and_keeps_what_was_used_last(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    names = [kept(store, bytes([number]) * 1000) for number in range(5)]
    cache = Cache(store, tmp_path / "cache", 2500)
    for number in (0, 1, 0, 2, 0, 3):
        time.sleep(0.01)  # coarse file system clocks
        assert cache.path(names[number]).read_bytes() == bytes([number]) * 1000
        assert sum(file.stat().st_size for file in (tmp_path / "cache/objects").iterdir()) <= 2500
    assert {file.name for file in (tmp_path / "cache/objects").iterdir()} == {names[n][-64:] for n in (0, 3)}


def test_what_a_killed_process_left_of_a_fetch_is_overwritten(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    name = kept(store, b"as it was")
    cache = Cache(store, tmp_path / "cache", 10**6)
    fetch, left = store.fetch, tmp_path / "cache/objects"

    def killed(name: str, target: Path) -> bool:
        fetch(name, target)
        target.rename(target.with_name(f"{target.name}.left"))
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(store, "fetch", killed)
        cache.path(name)
    [file] = left.iterdir()
    file.rename(file.with_name(file.name.removesuffix(".left")))
    assert cache.path(name).read_bytes() == b"as it was"
    assert [file.name for file in left.iterdir()] == [name[-64:]]


def test_what_is_fetched_is_compared_with_its_hash(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    name = kept(store, b"as it was")
    damage(tmp_path / "store" / name)
    with pytest.raises(SonorantError, match="damaged, because its content does not match its name"):
        Cache(store, tmp_path / "cache", 10**6).path(name)
    with pytest.raises(SonorantError, match="no such object"):
        Cache(store, tmp_path / "cache", 10**6).path(object_name("0" * 64))
    assert list((tmp_path / "cache/objects").iterdir()) == []


def config(folder: Path, place: str) -> StoreConfig:
    return StoreConfig(place=place, utterances_per_shard=3, cache=str(folder / "cache"), cache_gib=1.0)


def features(out: Path, place: str, seed: int = 0) -> Path:
    write_corpus(out, TINY, 8, (0.3, 0.5), seed=seed, config=config(out.parent, place))
    return out


def read_all(path: Path) -> list[np.ndarray]:
    store = FeatureStore.open(path)
    return [read(i) for i in range(len(store)) for read in (store.mel_and_pitch, store.samples, store.tokens)]


def test_features_are_the_same_from_a_bucket(bucket: str, tmp_path: Path) -> None:
    local, remote = features(tmp_path / "local", str(tmp_path / "store")), tmp_path / "remote"
    features(remote, f"{bucket}/same")
    assert (local / "header.json").read_bytes() == (remote / "header.json").read_bytes()
    for one, other in zip(read_all(local), read_all(remote), strict=True):
        np.testing.assert_array_equal(one, other)
    FeatureStore.open(remote).verify()
    lost = object_name(FeatureStore.open(remote).index.shard_objects[1, 0].tobytes().hex())
    open_store(f"{bucket}/same").delete(lost)
    with pytest.raises(SonorantError, match=r"\(mels of shard 1\): no such file; run: dvc repro --force"):
        FeatureStore.open(remote).check()


class Distant(Folder):
    """A folder that is fetched from like a bucket."""

    def local(self, name: str) -> Path | None:
        return None


def test_what_was_cut_off_in_the_cache_is_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = features(tmp_path / "features", str(tmp_path / "store"))
    monkeypatch.setattr(sonorant.features.shards, "open_store", lambda place: Distant(Path(place)))
    wanted = read_all(made)

    def cut_off() -> None:
        for file in (tmp_path / "cache/objects").iterdir():
            os.truncate(file, file.stat().st_size - 2)

    cut_off()
    for one, other in zip(wanted, read_all(made), strict=True):
        np.testing.assert_array_equal(one, other)
    cut_off()
    for file in (tmp_path / "store/objects").rglob("*/*"):
        damage(file)
    with pytest.raises(
        SonorantError, match=r"store/objects.*: damaged, because its content .*; run: sonorant store check"
    ):
        read_all(made)


def test_a_bucket_that_answers_503_is_asked_again(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = features(tmp_path / "local", str(tmp_path / "store"))
    answered = []

    def busy(number: int) -> tuple[int, bytes] | None:
        answered.append(number % 3 == 0)
        return (503, b"<Error><Code>SlowDown</Code><Message>busy</Message></Error>") if answered[-1] else None

    with disturbed(os.environ["AWS_ENDPOINT_URL"], busy) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        remote = features(tmp_path / "remote", f"{bucket}/busy")
        for one, other in zip(read_all(local), read_all(remote), strict=True):
            np.testing.assert_array_equal(one, other)
    assert sum(answered) > 5


@pytest.mark.parametrize(
    ("status", "code", "token", "says"),
    [
        (400, "ExpiredToken", "old", "the temporary key may have expired: sign in again"),
        (403, "InvalidAccessKeyId", "", "check AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID"),
    ],
)
def test_a_key_that_a_bucket_refuses_is_named_in_one_line(
    status: int, code: str, token: str, says: str, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>No such key.</Message></Error>".encode()
    with disturbed(os.environ["AWS_ENDPOINT_URL"], lambda number: (status, body)) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
        store = open_store(bucket)
        with pytest.raises(SonorantError, match=f"^store {bucket}: {code}: No such key.; {says}"):
            store.read("a")


def test_gc_removes_what_no_index_names_and_nothing_else(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = features(tmp_path / "old", place, seed=1), features(tmp_path / "new", place, seed=2)
    store = open_store(place)
    orphan = kept(store, b"of a shard that was never finished")
    everything = names_in(store)

    main(["store", "gc", str(new)])
    assert "removed 0 shards, 0 arrays" in capsys.readouterr().out, "what is young may be a stage's that is at work"
    assert names_in(store) == everything
    main(["store", "gc", str(new), "--hours", "0", "--dry-run", "--only"])
    shards = len(FeatureStore.open(old).index.shard_ends)
    assert f"would remove {shards} shards, {shards * len(ARRAYS) + 1} arrays" in capsys.readouterr().out
    assert names_in(store) == everything
    main(["store", "gc", str(new), "--hours", "0"])
    assert names_in(store) == everything - {orphan}, "the old index was made from the store and may be used again"
    read_all(old)
    main(["store", "gc", str(new), "--hours", "0", "--only"])
    FeatureStore.open(new).verify()
    read_all(new)
    assert len(names_in(store)) == shards * (len(ARRAYS) + 1) + 1
    with pytest.raises(SonorantError, match="no such file; run: dvc repro --force --single-item features"):
        FeatureStore.open(old).check()


def test_gc_keeps_old_shards_that_a_stage_has_just_found(tmp_path: Path) -> None:
    """A stage that reuses old shards has only a recent note."""
    place = tmp_path / "store"
    old, new = features(tmp_path / "old", str(place), seed=1), features(tmp_path / "new", str(place), seed=2)
    long_ago = time.time() - 2 * 86400
    for file in (file for folder in ("objects", "shards") for file in (place / folder).rglob("*")):
        os.utime(file, (long_ago, long_ago))
    main(["store", "gc", str(new), "--only"])
    FeatureStore.open(old).verify()
    assert len(read_all(old)) == len(read_all(new))


def test_shards_that_workers_wrote_into_another_folder_are_missed(tmp_path: Path) -> None:
    """Like another machine whose folder is not shared."""
    with pytest.raises(SonorantError, match="2 of 2 shards written by workers are missing"):
        check_written(str(tmp_path / "store"), ["0" * 64, "1" * 64])


def test_gc_removes_the_drafts_of_killed_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, drafts = features(tmp_path / "features", str(tmp_path / "store")), tmp_path / "store/drafts"
    long_ago = time.time() - 2 * 86400
    for name in ("killed", "empty", "at-work"):
        (drafts / name).mkdir()
    for name in ("killed", "at-work"):
        (drafts / name / "mels.npy").write_bytes(bytes(1000))
    for old in (drafts / "killed/mels.npy", *drafts.iterdir()):
        os.utime(old, (long_ago, long_ago))
    main(["store", "gc", str(made), "--dry-run"])
    assert "would remove 0 shards, 0 arrays, 2 drafts" in capsys.readouterr().out
    assert len(list(drafts.iterdir())) == 3
    main(["store", "gc", str(made)])
    assert [draft.name for draft in drafts.iterdir()] == ["at-work"]
    FeatureStore.open(made).verify()


@pytest.mark.parametrize("computes", [False, True])
def test_gc_keeps_what_a_stage_needs_that_begins_while_it_removes(
    computes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One stage reuses old shards; another computes the same arrays under other names."""
    place = tmp_path / "store"
    old, new = features(tmp_path / "old", str(place), seed=1), features(tmp_path / "new", str(place), seed=2)
    long_ago = time.time() - 2 * 86400
    for file in place.rglob("*"):
        os.utime(file, (long_ago, long_ago))
    before = list(unpacked((old / KEYS).read_bytes()))
    keys = [hashlib.sha256(key.encode()).hexdigest() for key in before] if computes else before
    delete, begun = Folder.delete, list[str]()

    def removed_as_a_stage_begins(store: Folder, name: str) -> None:
        if not begun:
            begun.append(name)
            mark(store, keys)
            shards = find_shards(store, before)
            assert all(shards)
            for key, shard in zip(keys, shards if computes else [], strict=computes):
                with store.draft() as draft:
                    files = {array: draft / array for array in shard.objects}
                    for array, file in files.items():
                        store.fetch(object_name(shard.objects[array]), file)
                    write_shard(store, key, files, {})
        delete(store, name)

    monkeypatch.setattr(Folder, "delete", removed_as_a_stage_begins)
    main(["store", "gc", str(new), "--only"])
    assert begun
    FeatureStore.open(old).verify()
    assert mark_name(packed(keys)) in names_in(open_store(str(place)))


def names_in(store: Store) -> set[str]:
    return {entry.name for folder in ("objects", "shards", "indexes") for entry in store.entries(folder)}


def test_check_finds_what_is_damaged_and_removes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = features(tmp_path / "features", str(tmp_path / "store"))
    main(["store", "check", str(made)])
    assert "match their hashes" in capsys.readouterr().out
    spoilt, lost = object_of(made, "audio", 1), object_of(made, "tokens", 0)
    damage(spoilt)
    lost.unlink()
    with pytest.raises(SystemExit, match="1"):
        main(["store", "check", str(made)])
    said = capsys.readouterr()
    assert f"{spoilt.name}: damaged" in said.out and f"{lost.name}: missing" in said.out
    assert said.err.startswith("error: 2 of ") and "--delete-damaged" in said.err
    assert spoilt.exists()
    main(["store", "check", str(made), "--delete-damaged"])
    assert not spoilt.exists()
    assert "dvc repro --force --single-item features" in capsys.readouterr().out


def test_copied_shards_are_found_at_the_new_place(place: str, tmp_path: Path) -> None:
    made = features(tmp_path / "features", str(tmp_path / "here"))
    wanted = read_all(made)
    main(["store", "copy", str(made), "--to", place])
    shutil.rmtree(tmp_path / "here")
    config(tmp_path, place).as_place().write(made)
    FeatureStore.open(made).verify()
    for one, other in zip(wanted, read_all(made), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_store_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SonorantError, match=r"store .*file.*; free disk space or choose another store.place"):
        features(tmp_path / "features", str(tmp_path / "file"))
    assert not (tmp_path / "features").exists()


def test_a_place_of_another_scheme_is_refused() -> None:
    with pytest.raises(ValueError, match="place must be a folder or s3://bucket/prefix, not 'ftp://host/x'"):
        StoreConfig(place="ftp://host/x")


def test_a_full_disk_here_is_not_said_to_be_the_buckets_fault(tmp_path: Path) -> None:
    obstore_store = pytest.importorskip("obstore.store")
    from sonorant.features.store.bucket import Bucket

    bucket = object.__new__(Bucket)
    bucket.place, bucket._store = "s3://voices", obstore_store.LocalStore(str(tmp_path))
    (tmp_path / "object").write_bytes(bytes(3 << 20))
    assert bucket.fetch("object", tmp_path / "copy") and (tmp_path / "copy").stat().st_size == 3 << 20
    assert not bucket.fetch("absent", tmp_path / "copy")
    with pytest.raises(SonorantError, match=r"^/dev/full: No space left on device; free disk space"):
        bucket.fetch("object", Path("/dev/full"))
