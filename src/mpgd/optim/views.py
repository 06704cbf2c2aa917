"""The state of a wrapped optimizer and that of its perturbation, seen as one.

The drivers' tensors must not lie in the wrapped optimizer's state, since many optimizers take a
parameter whose state is not empty for one they have seen. So there are two stores, and views that
read and write both: a name that begins with the prefix belongs to the perturbation. Nothing is
copied: what is written through a view is in the store, and what a step changes shows.

An optimizer around a wrapped one may save what it sees here by torch's own `state_dict`, and torch
casts every tensor it loads to the parameter's dtype. The words of an orbit would not survive that,
so a view shows them as `Words`, which keep their dtype.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mpgd.optim.orbits import State
from mpgd.optim.settings import PREFIX


def is_ours(name: object) -> bool:
    """Return whether a name in a state or a group is the perturbation's.

    Examples:
        >>> is_ours("perturbation.step"), is_ours("step"), is_ours(3)
        (True, False, False)
    """
    return isinstance(name, str) and name.startswith(PREFIX)


class Words(Tensor):
    """Integers that `Tensor.to` moves to another device but never makes floating-point.

    Examples:
        >>> import torch
        >>> torch.tensor([7]).as_subclass(Words).to(torch.float32).dtype
        torch.int64
    """

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Return the same integers, on the device that is named."""
        moved = Tensor.to(self, *args, **kwargs)
        if moved.dtype == self.dtype:
            return moved
        return Tensor.to(self, device=moved.device)

    def __deepcopy__(self, memo: dict[int, Any]) -> Words:
        """Return a copy that keeps its dtype too."""
        copied: Words = self.as_subclass(Tensor).clone().as_subclass(Words)
        memo[id(self)] = copied
        return copied


torch.serialization.add_safe_globals([Words])  # so that weights_only loads what others saved


def shown(value: Any) -> Any:
    """Return an integer tensor as `Words` of the same memory, and others as they are."""
    is_plain = type(value) is Tensor and not value.is_floating_point()
    return value.as_subclass(Words) if is_plain else value


def kept(value: Any) -> Any:
    """Return the plain tensor of `Words`."""
    return value.as_subclass(Tensor) if isinstance(value, Words) else value


if TYPE_CHECKING:
    _Live = dict[Any, Any]
else:

    class _Live(MutableMapping, dict):
        """A dictionary to those who ask, which holds nothing itself: all goes to its methods."""


class Entries(_Live):
    """The state of one parameter.

    Args:
        inner: the wrapped optimizer's part; alone, this is a view of a plain dictionary.
        own: the perturbation's part, without prefixes.
    """

    def __init__(self, inner: Any = (), own: State | None = None) -> None:
        self._inner = inner if isinstance(inner, MutableMapping) else dict(inner)
        self._own = {} if own is None else own

    def _find(self, name: Any) -> tuple[MutableMapping[Any, Any], Any]:
        return (self._own, name[len(PREFIX) :]) if is_ours(name) else (self._inner, name)

    def __getitem__(self, name: Any) -> Any:
        part, key = self._find(name)
        return shown(part[key]) if part is self._own else part[key]

    def __setitem__(self, name: Any, value: Any) -> None:
        part, key = self._find(name)
        part[key] = kept(value) if part is self._own else value

    def __delitem__(self, name: Any) -> None:
        part, key = self._find(name)
        del part[key]

    def __iter__(self) -> Iterator[Any]:
        return iter([*self._inner, *(PREFIX + name for name in self._own)])

    def __len__(self) -> int:
        return len(self._inner) + len(self._own)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as a plain dictionary, of the kind that weights_only loads."""
        return OrderedDict, (), None, None, iter(list(self.items()))


class BothStates(_Live):
    """Both states by parameter; empty in a test of truth as long as the inner one is.

    Distributed checkpoints ask that to see whether the inner optimizer must make its state. Entries
    of the wrapped optimizer that are not a parameter's pass through.

    Args:
        inner: the wrapped optimizer's state.
        orbits: the perturbation's, by parameter.
    """

    def __init__(self, inner: Any, orbits: dict[Tensor, State]) -> None:
        self._inner, self._orbits = inner, orbits

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, Tensor):
            return self._inner[key]
        if key in self._inner and not isinstance(self._inner[key], MutableMapping):
            return self._inner[key]
        if key not in self._inner and key not in self._orbits:
            _ = self._inner[key]  # a KeyError, or an empty state where the wrapped one makes such
        return Entries(_Part(self._inner, key), _Part(self._orbits, key))

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, Tensor) or not isinstance(value, Mapping):
            self._inner[key] = value
            return
        plain, own = split(value)
        self._inner[key] = plain
        self._orbits.pop(key, None)
        if own:
            self._orbits[key] = own

    def __delitem__(self, key: Any) -> None:
        if isinstance(key, Tensor) and self._orbits.pop(key, None) is not None:
            self._inner.pop(key, None)
        else:
            del self._inner[key]

    def __iter__(self) -> Iterator[Any]:
        return iter([*self._inner, *(p for p in self._orbits if p not in self._inner)])

    def get(self, key: Any, default: Any = None) -> Any:
        """Return an entry if it is there; unlike ``[]``, never make one."""
        return self[key] if self.__contains__(key) else default

    def __contains__(self, key: object) -> bool:
        return key in self._inner or (isinstance(key, Tensor) and key in self._orbits)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __bool__(self) -> bool:
        return bool(self._inner)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as a plain dictionary, of the kind that weights_only loads."""
        return OrderedDict, (), None, None, iter(list(self.items()))


class _Part(MutableMapping[Any, Any]):
    """The entry of one key in a store of dictionaries; written to, it is made."""

    def __init__(self, store: Any, key: Any) -> None:
        self._store, self._key = store, key

    def _found(self) -> Any:
        return self._store.get(self._key, {})

    def __getitem__(self, name: Any) -> Any:
        return self._found()[name]

    def __setitem__(self, name: Any, value: Any) -> None:
        self._store.setdefault(self._key, {})[name] = value

    def __delitem__(self, name: Any) -> None:
        del self._found()[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())


def split(values: Mapping[Any, Any]) -> tuple[dict[Any, Any], dict[str, Any]]:
    """Return the wrapped optimizer's entries, and the perturbation's without their prefix.

    Examples:
        >>> split({"exp_avg": 1, 0: 2, "perturbation.step": 3})
        ({'exp_avg': 1, 0: 2}, {'step': 3})
    """
    plain = {key: value for key, value in values.items() if not is_ours(key)}
    own = {key.removeprefix(PREFIX): kept(v) for key, v in values.items() if is_ours(key)}
    return plain, own
