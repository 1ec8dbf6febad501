"""The apps that a user has connected in ChatGPT, as tools."""

import pytest

from conftest import UNAVAILABLE, USAGE
from test_plan_route import person, sign_in  # noqa: F401

READ = 'call gmail_search_emails {"query": "invoice"}'
WRITE = 'call gmail_send_email {"text": "hello"}'


def test_the_apps_and_their_tools_are_listed(user):
    someone = user()
    lines = someone.run("--simulate", "apps").output.splitlines()
    assert lines[0] == "calendar" and lines[3] == "gmail", lines
    assert lines[4].split()[:2] == ["gmail.search_emails", "reads"] and lines[5].split()[:2] == ["gmail.send_email", "writes"], lines
    [event] = someone.run("--simulate", "apps", "--json").events
    assert [(app["name"], [tool["read_only"] for tool in app["tools"]]) for app in event["apps"]] == [
        ("calendar", [True, False]), ("gmail", [True, False])], event


def test_the_model_uses_the_apps_that_the_user_names(user):
    someone = user()
    status, shown = someone.converse("--simulate", "ask", "--apps", "gmail", READ, answers=[("Run it?", "y\r")], echoing=["Run it?"])
    assert status == 0 and "gmail.search_emails of" in shown, shown
    status, shown = someone.converse("--simulate", "ask", "--apps", "gmail", WRITE, answers=[("Run it?", "n\r")], echoing=["Run it?"])
    assert status == 0 and "gmail.send_email of" not in shown and "The user said no" in shown, shown
    # Another app is not offered, and without the option none is.
    for words in (["--apps", "calendar"], []):
        assert "no such tool is declared" in someone.run("--simulate", "ask", *words, READ).output
    said = someone.run("--simulate", "ask", "--apps", "gmail,slack", "reply: hello")
    assert said.output == "hello\n" and 'you have connected no app "slack", but these apps: calendar, gmail' in said.errors, said


def test_no_option_approves_every_call_and_a_setting_approves_reading_tools(simulate, user):
    someone = user(simulate()).sign_in()
    denied = someone.run("ask", "--approve-tools", "--apps", "gmail", READ)
    assert "gmail.search_emails of" not in denied.output and "could not be asked" in denied.output, denied
    someone.run("config", "set", "app_tools", "gmail.search_emails", "gmail.send_email")
    assert "gmail.search_emails of" in someone.run("ask", "--apps", "gmail", READ).output
    assert "gmail.send_email of" not in someone.run("ask", "--apps", "gmail", WRITE).output
    someone.run("config", "set", "app_tools", "two words", status=USAGE, says="an array of names")


def test_a_page_that_connects_an_app_is_shown_and_not_opened(simulate, user):
    someone = user(simulate()).sign_in()
    someone.run("config", "set", "app_tools", "gmail.search_emails")
    said = someone.run("ask", "--apps", "gmail", 'call gmail_search_emails {"query": "reconnect"}')
    assert "It asks you to open: https://chatgpt.com/apps/connect" in said.errors, said


def test_a_chat_lists_and_chooses_apps(simulate, user):
    someone = user(simulate()).sign_in()
    someone.run("config", "set", "app_tools", "gmail.search_emails")
    said = someone.run("chat", input="\n".join(["/apps", READ, "/apps gmail", READ, "/apps off", READ, ""]))
    assert "calendar.list_events reads" in said.output and "The model may use: gmail." in said.errors, said
    assert said.output.count("gmail.search_emails of") == 1 and said.output.count("no such tool is declared") == 2, said


@pytest.mark.parametrize("scenario", ["apps-not-included", "apps-401"])
def test_a_sign_in_without_apps_is_good_for_everything_else(scenario, simulate, user):
    someone = user(simulate(scenario)).sign_in()
    someone.run("apps", status=UNAVAILABLE, says="This sign-in doesn't include connected apps.")
    said = someone.run("ask", "--apps", "gmail", "reply: hello")
    assert said.output == "hello\n" and "This sign-in doesn't include connected apps." in said.errors, said
    assert someone.run("status", "--json").events[0]["signed_in"], "the sign-in is gone"


def test_the_plan_route_has_no_apps(person):
    _, someone = person()
    sign_in(someone)
    for words in (["apps"], ["ask", "--apps", "gmail", "hello"]):
        said = someone.run(*words, status=None)
        assert said.status != 0 and "Using connected apps is not part of a sign-in with" in said.errors, said
