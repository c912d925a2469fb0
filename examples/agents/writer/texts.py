"""Texts of the writer, with the placeholders `{topic}`, `{tone}` and `{name}`, the topic as a Python name."""

ARTICLE = """\
## A note on {topic}

Everyone has met {topic}, and few have looked closely. This note does.

1. **What it is.** A thing is easier to use once it has a name.
2. **Why it matters.** What you can see, you can mend.
3. **What comes next.** Start small, and write down what you learn.

> Written in a {tone} tone.
"""

TABLE = """\
| Kind | Good for | Days |
|:--|:--|--:|
| a little {topic} | a first try | 1 |
| a lot of {topic} | every day | 365 |
| no {topic} | comparison | 0 |
"""

CODE = """\
This counts {topic}:

```python
def count_{name}(items: list[str]) -> dict[str, int]:
    counts: dict[str, int] = {{}}
    for item in items:
        counts[item] = counts.get(item, 0) + 1
    return counts
```

`count_{name}(["a", "b", "a"])` gives `{{"a": 2, "b": 1}}`.
"""

PART = """\
## {title}

We come to {{topic}} with habits, and habits are quick: they answer before we have asked. So the first \
step is to slow down. We list what we know, mark what we only believe, and keep the two lists apart. The \
second step is to try one small thing and to watch what changes. Most of what we call {{topic}} turns out \
to be two or three simple things that happen at once.

"""
ESSAY = "# On {topic}\n\n" + "".join(
    PART.format(title=title) for title in ("What we see", "What we measure", "What we change", "What we keep")
)

JAPANESE = """\
## 短い手紙

窓の外では**静かに雨**が降っています。今日は三つのことをしました。

- 朝：お茶を一杯
- 昼：長い散歩
- 夜：好きな本を十頁

それでは、また明日。
"""

CHINESE = """\
## 一封短信

窗外**静静地下着雨**。今天我做了三件事。

- 早上：喝一杯茶
- 中午：走一段长路
- 晚上：读十页喜欢的书

明天见。
"""

KOREAN = """\
## 짧은 편지

창밖에는 **조용히 비**가 내립니다. 오늘은 세 가지 일을 했습니다.

- 아침: 차 한 잔
- 점심: 긴 산책
- 저녁: 좋아하는 책 열 쪽

그럼 내일 또 만나요.
"""
