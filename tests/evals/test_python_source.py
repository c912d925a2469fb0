"""Literals of agents in Python code: found by the agent's name, and replaced without any other change."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals_app.variants.python_source import NotReplaceable, PythonSource, write_literal


def replace_value(code: str, value: object, agent: str = "shop", field: str = "instruction") -> str:
    source = PythonSource(code)
    literal = source.find_value(agent, field)
    return source.replace([(literal, value)])


def read_refusal(code: str, field: str = "instruction") -> str:
    with pytest.raises(NotReplaceable) as error:
        PythonSource(code).find_value("shop", field)
    return str(error.value)


def test_value_in_the_call_is_replaced_with_its_quotes():
    code = "# é\nagent = Agent(name='shop', instruction='Sell.', model='m')  # ours\n"
    assert replace_value(code, "Don't sell.") == code.replace("'Sell.'", "'Don\\'t sell.'")
    assert replace_value(code, "new-model", field="model") == code.replace("'m'", "'new-model'")


def test_value_of_a_module_name_is_replaced_where_it_is_set():
    code = 'TEXT = """\\\nSell.\n\ntier: {tier?}\n"""\n\nagent = Agent(name="shop", instruction=TEXT)\n'
    assert replace_value(code, "Sell.\n\ntier: gold\n") == code.replace("{tier?}", "gold")
    annotated = code.replace("TEXT =", "TEXT: str =")
    assert replace_value(annotated, "Sell.\n\ntier: gold\n") == annotated.replace("{tier?}", "gold")


def test_joined_literals_stay_joined_and_within_the_line():
    code = 'agent = Agent(\n    name="shop",\n    instruction="Sell. "\n    "Smile.",\n)\n'
    lines = replace_value(code, "Sell things that people need. " * 6 + "\nSmile.").splitlines()
    assert lines[0] == "agent = Agent("
    assert max(map(len, lines)) <= 120
    assert len(lines) > 5
    assert lines[-1] == ")"


def test_line_ends_of_the_file_stay():
    code = "agent = Agent(\r\n    name='shop',\r\n    instruction='Sell.',\r\n)\r\n"
    assert replace_value(code, "Buy.") == code.replace("Sell.", "Buy.")


def test_scalars_are_replaced_too():
    code = "agent = Agent(name='shop', output_key=None, disallow_transfer_to_peers=False)\n"
    assert replace_value(code, "sold", field="output_key") == code.replace("None", '"sold"')
    assert replace_value(code, True, field="disallow_transfer_to_peers") == code.replace("False", "True")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("Agent(name='shop', instruction=f'Sell {x}.')", "its value is an expression"),
        ("Agent(name='shop', instruction=load('a.txt'))", "its value is an expression"),
        ("Agent(name='shop', instruction=TEXT)", "TEXT, which the module does not set just once"),
        ("A = 'x'\nA = 'y'\nAgent(name='shop', instruction=A)", "which the module does not set just once"),
        ("A = 'x'\nAgent(name='shop', instruction=A)\nprint(A)", "A, which other code uses, too"),
        (
            "def a(T='x'):\n    Agent(name='shop', instruction=T)",
            "T, which the module does not set just once",
        ),
        ("I = J = 'x'\nAgent(name='shop', instruction=I)", "which the module does not set just once"),
        ("I = 'x'\ndef a(I):\n    Agent(name='shop', instruction=I)", "I, which other code uses, too"),
        ("I = 'x'\nfrom b import I\nAgent(name='shop', instruction=I)", "I, which other code uses, too"),
        ("Agent(name='shop', model='m')", "the agent's code does not set it by name"),
        ("Agent(name='shop', **more)", "the agent's code does not set it by name"),
    ],
)
def test_values_that_stand_in_no_literal_of_their_own_are_refused(code, words):
    assert words in read_refusal(code)


def test_every_call_with_the_name_is_found_but_for_that_of_the_app():
    code = "App(name='shop', root_agent=a)\nAgent(name='shop', model='m')\nAgent(**more)\ndict(name='a')\n"
    source = PythonSource(code)
    assert source.find_lines("shop") == [2]
    assert source.find_lines("a") == [4]
    assert source.find_lines("shops") == []
    assert source.find_value("shop", "model").value == "m"


def test_objects_are_not_written_as_literals():
    source = PythonSource("Agent(name='shop', generate_content_config=None)\n")
    field_value = source.find_value("shop", "generate_content_config")
    with pytest.raises(ValueError, match="its value is an object"):
        source.replace([(field_value, {"temperature": 0})])


@pytest.mark.parametrize(
    "code",
    [
        "agent = (",
        "a = 1\rb = 2\n",
        "a = 1\r\nb = 2\n",
        "(" * 5000,
        "a = '\0'",
        "# -*- coding: latin-1 -*-\n",
    ],
)
def test_text_that_cannot_be_parsed_is_refused(code):
    with pytest.raises((SyntaxError, ValueError, RecursionError, MemoryError)):
        PythonSource(code)


STYLES = ["'a'", '"a"', '"""a"""', "'''\\\na\n'''", "r'a'", "'a' 'b'", "('a'\n'b')", "None"]


@given(value=st.text(st.characters(), max_size=60), style=st.sampled_from(STYLES), column=st.integers(0, 100))
def test_any_text_is_written_as_itself_in_any_style(value, style, column):
    assert ast.literal_eval(f"({write_literal(style.strip('()'), value, column)})") == value


@given(value=st.text("ab\"'\\\n{} é😀\t\0\r", max_size=40), style=st.sampled_from(STYLES))
def test_replacing_a_literal_changes_no_other_code(value, style):
    code = f"é = '😀'; agent = Agent(name='shop', instruction={style}, model='m')  # {{}}\nend = 1\n"
    tree = ast.parse(replace_value(code, value))
    keywords = {keyword.arg: ast.literal_eval(keyword.value) for keyword in tree.body[1].value.keywords}
    assert keywords == {"name": "shop", "instruction": value, "model": "m"}
    assert len(tree.body) == 3
