package terminal

import (
	"strings"

	"github.com/troupe-dev/troupe/mcpclient"
)

// question is one question being asked.
type question struct {
	*screen
	ask    *mcpclient.Ask
	server string // fit to be shown
}

// header says who asks, and because of what. Nothing of it is the server's own claim (SECA-34).
func (q *question) header(what string) {
	a := q.ask
	q.say("\n%s\nThe server %s %s.", strings.Repeat("─", 40), q.server, what)
	if a.Origin != "" {
		q.field("Server", clean(a.Server)+", "+clean(a.Origin))
	}
	switch len(a.Calls) {
	case 0:
		q.field("For", "no call of yours: it asks on its own")
	case 1:
		q.field("For", callText(a.Calls[0]))
	default:
		var names []string
		for _, c := range a.Calls {
			names = append(names, callText(c))
		}
		q.field("For", "one of the calls "+strings.Join(names, "; ")+" (the server does not say which)")
	}
	for _, note := range a.Notes {
		q.warn("%s", clean(note))
	}
	if len(a.Path) > 0 {
		q.field("Run", clean(strings.Join(a.Path, " > ")))
	}
	if !a.Expires.IsZero() {
		q.field("Until", a.Expires.Local().Format("15:04:05")+", then it is declined")
	}
}

// field is one line of what the program itself says.
func (q *question) field(name, value string) { q.say("  %-8s%s", name+":", value) }

// menu offers what can be done until one of it is chosen. Accept is among it only
// here, where everything has been shown. The keys are in small letters; a choice may
// have an argument.
func (q *question) menu(accept string, others ...choice) (key, argument string, err error) {
	all := append([]choice{{"a", "accept", accept}}, others...)
	all = append(all, choice{"d", "decline", "no"}, choice{"da", "decline all", "no, and ask nothing more for " + q.server}, choice{"c", "cancel", "decide nothing"})
	for {
		q.say("")
		for _, c := range all {
			q.say("  %-3s %-12s %s", c.key, c.word, c.text)
		}
		line, err := q.read("> ")
		if err != nil {
			return "", "", err
		}
		if l := leaving(line); l != nil {
			return "", "", l
		}
		word, argument, _ := strings.Cut(strings.ToLower(strings.TrimSpace(line)), " ")
		for _, c := range all {
			if word == c.key || word == c.word {
				return c.key, strings.TrimSpace(argument), nil
			}
		}
		q.say("Please type one of the words.")
	}
}

func callText(c mcpclient.AskCall) string {
	if c.Name == "" {
		return clean(c.Method)
	}
	return clean(c.Method) + " " + clean(c.Name)
}

// choice is one line of a menu.
type choice struct{ key, word, text string }

// command reads the same words in the middle of a form, where they have a colon
// before them: they could be values there.
func command(line string) (word string, l *leave) {
	word, ok := strings.CutPrefix(strings.TrimSpace(line), ":")
	if !ok {
		return "", nil
	}
	return strings.ToLower(word), leaving(word)
}
