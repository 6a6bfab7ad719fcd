from shop.prices import price


def total(names: list[str]) -> int:
    return sum(price(name) for name in names)
