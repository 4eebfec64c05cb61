package terminal

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// passage is a text that may be edited.
type passage struct {
	what string
	text *string
}

// sampling shows what a server wants to ask a model (SAMP-40), whole, and lets its
// texts be changed.
func (q *question) sampling() (*mcpclient.Decision, error) {
	p := copyParams(q.ask.Sampling)
	edited := false
	for {
		q.header("asks your model a question, at your cost")
		if m := q.ask.Message; m != "" && m != q.ask.Sampling.SystemPrompt { // that is shown below
			q.quote(m)
		}
		passages := q.request(p)
		key, argument, err := q.menu("let the model answer; you see the answer before the server does",
			choice{"e", "edit", "change a text: edit NUMBER"}, choice{"t", "tokens", "allow fewer tokens: tokens NUMBER"})
		if err != nil {
			return nil, err
		}
		switch key {
		case "a":
			d := &mcpclient.Decision{Action: mcp.ActionAccept}
			if edited {
				d.Sampling = p
			}
			return d, nil
		case "t":
			n, err := strconv.ParseInt(argument, 10, 64)
			if most := q.ask.Sampling.MaxTokens; err != nil || n <= 0 || n > most { // SAMP-08
				q.say("Say how many, at most %d, such as: tokens %d", most, max(1, most/2))
				continue
			}
			p.MaxTokens, edited = n, true
		case "e":
			changed, err := q.edit(passages, argument)
			if err != nil {
				return nil, err
			}
			edited = edited || changed
		}
	}
}

// request shows all of a request and returns what of it may be edited.
func (q *question) request(p *mcp.CreateMessageParams) []passage {
	var all []passage
	q.say("  At most %d tokens.%s", p.MaxTokens, wishes(p))
	if p.SystemPrompt != "" {
		all = append(all, passage{"instructions", &p.SystemPrompt})
		q.say("\n%d) Instructions for the model:", len(all))
		q.quote(p.SystemPrompt)
	}
	for i, m := range p.Messages {
		q.say("\nMessage %d of %d, as %s:", i+1, len(p.Messages), word(string(m.Role), string(mcp.RoleUser), string(mcp.RoleAssistant)))
		all = q.contents(m.Content, all)
	}
	for _, t := range p.Tools {
		q.say("\nA tool of the server that the model may ask for:")
		q.quote(definition(&t))
	}
	if len(p.Metadata) > 0 {
		q.say("\nFor the provider of the model:")
		q.quote(indent(p.Metadata))
	}
	return all
}

// word shows a word of the server: one that is not known in quotes, since it may look like
// more of what is said around it (SECA-41).
func word(s string, known ...string) string {
	if slices.Contains(known, s) {
		return s
	}
	return clean(fmt.Sprintf("%.40q", s))
}

// maxWishes bounds the models that are named of those that a server would like.
const maxWishes = 5

// wishes says what else the server would like.
func wishes(p *mcp.CreateMessageParams) string {
	var b strings.Builder
	if p.IncludeContext != "" && p.IncludeContext != mcp.ContextNone {
		fmt.Fprintf(&b, " It wants the model to see more of your conversations (%s).", word(p.IncludeContext, mcp.ContextThisServer, mcp.ContextAllServers))
	}
	if p.ModelPreferences != nil {
		// Quoted: a name may look like a sentence of ours (SECA-41).
		for i, h := range p.ModelPreferences.Hints {
			if i == maxWishes {
				fmt.Fprintf(&b, " And %d models more.", len(p.ModelPreferences.Hints)-i)
				break
			}
			fmt.Fprintf(&b, " It would like the model %s.", clean(fmt.Sprintf("%.100q", h.Name)))
		}
	}
	if mp := p.ModelPreferences; mp != nil {
		for _, wish := range []struct {
			what string
			much *float64
		}{{"a cheap one", mp.CostPriority}, {"a quick one", mp.SpeedPriority}, {"a clever one", mp.IntelligencePriority}} {
			if wish.much != nil {
				fmt.Fprintf(&b, " It wants %s (%g of 1).", wish.what, *wish.much)
			}
		}
	}
	if p.ToolChoice != nil {
		switch p.ToolChoice.Mode {
		case mcp.ToolChoiceRequired:
			b.WriteString(" The model must ask for a tool.")
		case mcp.ToolChoiceNone:
			b.WriteString(" The model must not ask for a tool.")
		}
	}
	if p.Temperature != nil {
		fmt.Fprintf(&b, " Temperature %g.", *p.Temperature)
	}
	if len(p.StopSequences) > 0 {
		fmt.Fprintf(&b, " The answer ends at one of %s.", clean(fmt.Sprintf("%q", p.StopSequences)))
	}
	return b.String()
}

// sample shows the answer of the model before the server gets it.
func (q *question) sample() (*mcpclient.Decision, error) {
	r := *q.ask.Sample
	r.Content = copyContents(r.Content)
	edited := false
	for {
		q.header("would get this answer of your model")
		q.field("Model", clean(r.Model))
		if r.StopReason != "" {
			q.field("Ended", clean(r.StopReason))
		}
		passages := q.contents(r.Content, nil)
		key, argument, err := q.menu("send it", choice{"e", "edit", "change a text: edit NUMBER"})
		if err != nil {
			return nil, err
		}
		switch key {
		case "a":
			d := &mcpclient.Decision{Action: mcp.ActionAccept}
			if edited {
				d.Sample = &r
			}
			return d, nil
		case "e":
			changed, err := q.edit(passages, argument)
			if err != nil {
				return nil, err
			}
			edited = edited || changed
		}
	}
}

// contents shows blocks of content. Texts get the next number.
func (q *question) contents(cs mcp.Contents, all []passage) []passage {
	for _, c := range cs {
		switch c := c.(type) {
		case *mcp.TextContent:
			all = append(all, passage{"text", &c.Text})
			q.say("%d)", len(all))
			q.quote(c.Text)
		case *mcp.ImageContent:
			q.say("%s", binary("A picture", c.MIMEType, c.Data))
		case *mcp.AudioContent:
			q.say("%s", binary("A sound", c.MIMEType, c.Data))
		case *mcp.ToolUseContent:
			q.say("A call of the tool %s:", clean(c.Name))
			q.quote(indent(c.Input))
		case *mcp.ToolResultContent:
			q.say("The result of a tool%s:", map[bool]string{true: ", which failed"}[c.IsError])
			all = q.contents(c.Content, all)
			if len(c.StructuredContent) > 0 {
				q.quote(indent(c.StructuredContent))
			}
		default:
			q.say("Other content (%s):", clean(c.ContentType()))
			raw, err := mcp.Marshal(c)
			if err != nil {
				raw = []byte("it cannot be shown: " + err.Error())
			}
			q.quote(indent(raw))
		}
	}
	return all
}

// binary names data that cannot be shown on a terminal.
func binary(what, mimeType string, data []byte) string {
	sum := sha256.Sum256(data)
	return fmt.Sprintf("%s that cannot be shown here: %s, %d bytes, SHA-256 %x…", what, clean(mimeType), len(data), sum[:6])
}

// edit replaces a text by what is typed. It reports whether it has.
func (q *question) edit(all []passage, argument string) (bool, error) {
	n, err := strconv.Atoi(argument)
	if argument == "" && len(all) == 1 {
		n, err = 1, nil
	}
	if err != nil || n < 1 || n > len(all) {
		q.say("Say which text, from 1 to %d, such as: edit 1", len(all))
		return false, nil
	}
	q.say("Type the new %s. A line with a single dot ends it; :back leaves it as it is.", all[n-1].what)
	var lines []string
	size := 0
	for {
		line, err := q.read("> ")
		if err != nil {
			return false, err
		}
		switch {
		case line == ".":
			*all[n-1].text = strings.Join(lines, "\n")
			return true, nil
		case strings.TrimSpace(line) == ":back":
			return false, nil
		case strings.HasPrefix(line, ".."): // a dot more, so that a line can be a dot
			line = line[1:]
		}
		if size += len(line) + 1; size > maxEdit {
			q.say("The text is too long; it stays as it was.")
			return false, nil
		}
		lines = append(lines, line)
	}
}

// maxEdit bounds a text that is typed, in bytes.
const maxEdit = 1 << 20

func copyParams(p *mcp.CreateMessageParams) *mcp.CreateMessageParams {
	d := *p
	d.Messages = slices.Clone(p.Messages)
	for i := range d.Messages {
		d.Messages[i].Content = copyContents(d.Messages[i].Content)
	}
	return &d
}

// copyContents copies what may be edited.
func copyContents(cs mcp.Contents) mcp.Contents {
	out := slices.Clone(cs)
	for i, c := range out {
		switch c := c.(type) {
		case *mcp.TextContent:
			d := *c
			out[i] = &d
		case *mcp.ToolResultContent:
			d := *c
			d.Content = copyContents(c.Content)
			out[i] = &d
		}
	}
	return out
}
