package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/columns"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// console plays a terminal and the person at it.
type console struct {
	t    *testing.T
	in   *io.PipeWriter
	p    *Prompter
	ends chan ended

	mu    sync.Mutex
	shown strings.Builder
	seen  int // how much of it expect has passed
	more  chan struct{}
	fail  error // of writing
}

type ended struct {
	d   *mcpclient.Decision
	err error
}

// newConsole returns one of many rows, so that nothing has to be turned over.
func newConsole(t *testing.T, o Options) *console {
	t.Helper()
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	c := &console{t: t, in: w, ends: make(chan ended, 16), more: make(chan struct{}, 1)}
	o.In, o.Out, o.Terminal = r, c, true
	if o.Size == nil {
		o.Size = func() (int, int) { return 100, 1000 }
	}
	c.p = New(o)
	return c
}

// Write takes what is shown.
func (c *console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return 0, c.fail
	}
	c.shown.Write(b)
	select {
	case c.more <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (c *console) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown.String()
}

// expect waits until a text is shown behind the one before, and returns what is between.
func (c *console) expect(text string) string {
	c.t.Helper()
	late := time.NewTimer(20 * time.Second)
	defer late.Stop()
	for {
		all := c.text()
		if i := strings.Index(all[c.seen:], text); i >= 0 {
			between := all[c.seen : c.seen+i]
			c.seen += i + len(text)
			return between
		}
		select {
		case <-c.more:
		case <-late.C:
			c.t.Fatalf("%q was not shown; shown was\n%s", text, all[c.seen:])
		}
	}
}

// types waits for a text and answers it with a line.
func (c *console) types(expect, line string) {
	c.t.Helper()
	c.expect(expect)
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// prompt waits for a prompt, and returns what was shown since the last.
func (c *console) prompt() string {
	c.t.Helper()
	late := time.NewTimer(20 * time.Second)
	defer late.Stop()
	for {
		if shown := c.text()[c.seen:]; shown != "" && !strings.HasSuffix(shown, "\n") { // lines are written whole
			c.seen += len(shown)
			return shown
		}
		select {
		case <-c.more:
		case <-late.C:
			c.t.Fatalf("there is no prompt; shown was\n%s", c.text()[c.seen:])
		}
	}
}

// asks puts a question.
func (c *console) asks(ctx context.Context, ask *mcpclient.Ask) {
	go func() {
		d, err := c.p.Decide(ctx, ask)
		c.ends <- ended{d, err}
	}()
}

// decided waits for the answer to a question, and checks its action.
func (c *console) decided(action string) *mcpclient.Decision {
	c.t.Helper()
	e := <-c.ends
	if e.err != nil || e.d == nil || e.d.Action != action {
		c.t.Fatalf("got %+v, %v, want %s; shown was\n%s", e.d, e.err, action, c.text())
	}
	return e.d
}

func ask(kind mcpclient.AskKind) *mcpclient.Ask {
	return &mcpclient.Ask{
		ID: "7", Kind: kind, Server: "files", Origin: "npx server-files", Message: "Please answer.",
		Calls: []mcpclient.AskCall{{Method: "tools/call", Name: "create"}}, Path: []string{"main", "helper"},
		Hash: "5eca41",
	}
}

func formAsk(properties string, required ...string) *mcpclient.Ask {
	names, _ := mcp.Marshal(required)
	a := ask(mcpclient.AskForm)
	a.Form = &mcp.ElicitParams{Message: a.Message, RequestedSchema: json.RawMessage(`{"type":"object","properties":{` + properties + `},"required":` + string(names) + `}`)}
	return a
}

const threeFields = `
	"name":{"type":"string","title":"Full name","description":"As in your passport","minLength":2},
	"age":{"type":"integer","minimum":18,"default":30},
	"colour":{"type":"string","oneOf":[{"const":"#f00","title":"Red"},{"const":"#0f0","title":"Green"}]}`

// A form is filled in field by field, can be changed, and is sent when the person
// says so (ELIC-09, ELIC-12, SECA-34).
func TestForm(t *testing.T) {
	c := newConsole(t, Options{})
	a := formAsk(threeFields, "name")
	a.Expires = time.Now().Add(time.Minute)
	c.asks(t.Context(), a)
	head := c.expect("1 of 3")
	for _, want := range []string{"The server files asks for information.", "Server: files, npx server-files", "For:    tools/call create", "Run:    main > helper", "Until:", "  │ Please answer."} {
		if !strings.Contains(head, want) {
			t.Errorf("%q is not in the header\n%s", want, head)
		}
	}
	c.expect("text (required), at least 2 characters")
	c.expect("  │ Full name (name)")
	c.expect("  │ As in your passport")
	c.types("> ", "A")
	c.expect("must have at least 2 characters")
	c.types("> ", "Ada")
	c.expect("2 of 3: whole number (optional), from 18")
	c.types("[30] > ", ":back")
	c.types("[Ada] > ", "")
	c.types("[30] > ", "")
	c.expect("  │ 2) Green  = #0f0")
	c.types("> ", "2")
	review := c.expect("> ")
	for _, want := range []string{"This would be sent to files:", "1) Full name\n  │ Ada\n", "2) age\n  │ 30\n", "3) colour\n  │ Green  = #0f0\n", "decline all"} {
		if !strings.Contains(review, want) {
			t.Errorf("%q is not in the review\n%s", want, review)
		}
	}
	io.WriteString(c.in, "edit 2\n")
	c.types("[30] > ", "17")
	c.types("[30] > ", "41")
	c.types("2) age\n  │ 41\n", "")
	c.types("Please type one of the words.", "accept")
	d := c.decided(mcp.ActionAccept)
	if got := fmt.Sprintf("%s", d.Content); got != `map[age:41 colour:"#0f0" name:"Ada"]` {
		t.Errorf("got the content %s", got)
	}
}

// The questions end in any place, by words, by the end of the input, by Ctrl-C.
func TestLeave(t *testing.T) { // ELIC-05, ELIC-12
	field, menu := "> ", "cancel       decide nothing\n> "
	tests := []struct {
		name, at, types, action string
		all                     bool
	}{
		{"decline a field", field, ":decline", mcp.ActionDecline, false},
		{"cancel a field", field, " :CANCEL ", mcp.ActionCancel, false},
		{"decline all in a field", field, ":decline all", mcp.ActionDecline, true},
		{"Ctrl-C in a field", field, "ab\x03", mcp.ActionCancel, false},
		{"decline", menu, "d", mcp.ActionDecline, false},
		{"no", menu, "no", mcp.ActionDecline, false},
		{"cancel", menu, "cancel", mcp.ActionCancel, false},
		{"decline all", menu, "decline  all", mcp.ActionDecline, true},
		{"decline all, short", menu, "da", mcp.ActionDecline, true},
		{"end of the input in a field", field, "", mcp.ActionCancel, false},
		{"end of the input", menu, "", mcp.ActionCancel, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var told []string
			c := newConsole(t, Options{DeclineAll: func(server string) { told = append(told, server) }})
			c.asks(t.Context(), formAsk(`"a":{"type":"string"}`))
			c.expect("  │ a")
			if tt.at == menu {
				c.types(field, "value")
			}
			c.expect(tt.at)
			if tt.types == "" {
				io.WriteString(c.in, "accep") // half a word is none
				c.in.Close()
			} else {
				io.WriteString(c.in, tt.types+"\n")
			}
			c.decided(tt.action)
			if (len(told) == 1 && told[0] == "files") != tt.all {
				t.Errorf("got told %q, want all=%v", told, tt.all)
			}
			if !tt.all {
				return
			}
			// SECA-33: nothing more of this server is shown.
			before := c.text()
			c.asks(t.Context(), formAsk(`"a":{"type":"string"}`))
			c.decided(mcp.ActionDecline)
			if c.text() != before {
				t.Errorf("a question is shown after all were declined: %q", c.text()[len(before):])
			}
			c.p.Allow("files")
			c.asks(t.Context(), formAsk(`"a":{"type":"string"}`))
			c.types(field, ":cancel")
			c.decided(mcp.ActionCancel)
		})
	}
}

// Values that look like commands can be said, and values can be taken back.
func TestFormWords(t *testing.T) {
	c := newConsole(t, Options{})
	c.asks(t.Context(), formAsk(`"a":{"type":"string","default":"d"},"b":{"type":"string"},"many":{"type":"array","items":{"type":"string","enum":["x","y"]}}`))
	c.types("[d] > ", `\:cancel`)
	c.types("> ", "no")
	c.types("> ", "1,y")
	c.types("> ", "e 2")
	c.types("[no] > ", ":clear")
	c.types("> ", "")
	c.types("b\n     (nothing)\n", "edit 9")
	c.types("from 1 to 3", "a")
	if got := fmt.Sprintf("%s", c.decided(mcp.ActionAccept).Content); got != `map[a:":cancel" many:["x","y"]]` {
		t.Errorf("got the content %s", got)
	}
}

// A field that is required can be cleared, but not left out.
func TestFormRequired(t *testing.T) {
	c := newConsole(t, Options{})
	c.asks(t.Context(), formAsk(`"a":{"type":"boolean"}`, "a"))
	c.types("> ", "")
	c.types("This value is required.", "yes")
	c.types("  │ yes\n", "e 1")
	c.types("[yes] > ", ":clear")
	c.types("> ", "")
	c.types("This value is required.", "n")
	c.types("  │ no\n", "a")
	if got := string(c.decided(mcp.ActionAccept).Content["a"]); got != "false" {
		t.Errorf("got %s", got)
	}
}

// What a server wrote cannot pretend to be the program, nor hide, nor be a link to
// click on (SECA-37, SECA-41, ELIC-14, URL-15).
func TestHostileTexts(t *testing.T) {
	c := newConsole(t, Options{})
	a := formAsk(`"x\n  Server: bank":{"type":"string","title":"T\u001b[31m\nThe server bank asks","description":"D\u202e\u200b\r> ","default":"v\u001b[2J\nw"}`)
	a.Message = "Hi\x1b[2J\x1b]8;;https://evil.example\x07click\x1b]8;;\x07\n────────\nThe server bank asks you.\r  Server: bank\u202e"
	a.Server, a.Origin = "fi\x1b[1mles\nThe server bank", "npx\x07 x\ny"
	a.Calls[0].Name = "create\n  Server: bank"
	a.Path = []string{"main\n  Server: bank"}
	c.asks(t.Context(), a)
	c.types("> ", "")
	c.types("> ", "d")
	c.decided(mcp.ActionDecline)
	all := c.text()
	for _, r := range all {
		if r != '\n' && (r < ' ' || r == 0x7f || r == 0x202e || r == 0x200b) {
			t.Errorf("U+%04X is shown: %q", r, all)
			break
		}
	}
	for line := range strings.SplitSeq(all, "\n") {
		if !strings.HasPrefix(line, "  │ ") && (strings.HasPrefix(line, "The server bank") || strings.HasPrefix(line, "  Server: bank")) {
			t.Errorf("the server has a line of its own: %q", line)
		}
	}
	if !strings.Contains(all, "There are 37 hidden characters in this text") || !strings.Contains(all, "There are 2 hidden characters") {
		t.Errorf("nothing is said of the hidden characters:\n%s", all)
	}
	if strings.Contains(all, "evil.example") {
		t.Errorf("the link's address is left:\n%s", all)
	}
}

func TestFormSecret(t *testing.T) { // SECA-31
	for _, a := range []*mcpclient.Ask{
		formAsk(`"apiKey":{"type":"string"}`),
		formAsk(`"a":{"type":"string","description":"your pass\u200bword"}`),
		func() *mcpclient.Ask {
			a := formAsk(`"a":{"type":"string"}`)
			a.Message = "Give me your password in the field below."
			return a
		}(),
	} {
		c := newConsole(t, Options{})
		c.asks(t.Context(), a)
		c.expect("!! This looks like a request for a secret")
		c.types("> ", ":d")
		c.decided(mcp.ActionDecline)
	}
}

// A person can accept only what was shown to the last line, and may leave at each
// page (SECA-41).
func TestPages(t *testing.T) {
	const more, menu = "-- Enter for more, or d (decline), c (cancel): ", "decide nothing\n> "
	a := formAsk("")
	a.Message = strings.Repeat("All work and no play.\n", 50) + strings.Repeat("\n", 50) + "And then it deletes everything."
	small := Options{Size: func() (int, int) { return 60, 20 }}

	c := newConsole(t, small)
	c.asks(t.Context(), a)
	pages := 0
	for ; ; pages++ {
		shown := c.prompt()
		if n := strings.Count(shown, "\n"); n > 18 {
			t.Fatalf("page %d has %d lines, more than fit:\n%s", pages, n, shown)
		}
		if strings.HasSuffix(shown, menu) {
			break
		}
		if !strings.HasSuffix(shown, more) {
			t.Fatalf("page %d is\n%s", pages, shown)
		}
		io.WriteString(c.in, "accept\n") // a word of the menu, which is not there yet
	}
	if pages < 6 || !strings.Contains(c.text(), "And then it deletes everything.") {
		t.Errorf("it can be accepted after %d pages:\n%s", pages, c.text())
	}
	io.WriteString(c.in, "accept\n")
	c.decided(mcp.ActionAccept)

	for word, action := range map[string]string{"d": mcp.ActionDecline, "c": mcp.ActionCancel, "decline all": mcp.ActionDecline} {
		c := newConsole(t, small)
		c.asks(t.Context(), a)
		c.types(more, "")
		c.types(more, word)
		c.decided(action)
		if strings.Contains(c.text(), "deletes") {
			t.Errorf("it goes on after %q", word)
		}
	}
}

// One long line fills pages as well as many short ones, and so does one of wide
// characters (SECA-41).
func TestPagesOfOneLine(t *testing.T) {
	for _, letter := range []string{"x", "東", "x "} {
		c := newConsole(t, Options{Size: func() (int, int) { return 40, 12 }})
		a := formAsk("")
		a.Message = strings.Repeat(letter, 3000) + "END"
		c.asks(t.Context(), a)
		c.types("-- Enter for more", "")
		if strings.Contains(c.text(), "END") {
			t.Errorf("%q: one page has it all", letter)
		}
		c.types("-- Enter for more", "c")
		c.decided(mcp.ActionCancel)
		for line := range strings.SplitSeq(c.text(), "\n") {
			width := 0
			for _, r := range line {
				width += columns.Rune(r)
			}
			if width >= 40 && !strings.HasPrefix(line, "--") && !strings.HasPrefix(line, "──") {
				t.Errorf("%q: the line %q is wider than the terminal", letter, line)
			}
		}
	}
}

func urlAsk(url string, warnings ...string) *mcpclient.Ask {
	a := ask(mcpclient.AskURL)
	a.URL = &mcpclient.URLView{URL: url, Warnings: warnings}
	return a
}

// The whole address is shown, with the domain that it belongs to made evident
// (URL-12, URL-14, SECA-30).
func TestURL(t *testing.T) {
	c := newConsole(t, Options{})
	c.asks(t.Context(), urlAsk("https://accounts.google.com.evil.co.uk/signin?next=/", "It is odd\x1b[2J."))
	shown := c.expect("decide nothing\n> ")
	for _, want := range []string{
		"The server files asks you to open a page in your browser.",
		"  │ https://accounts.google.com.evil.co.uk/signin?next=/\n" + "                                ^^^^^^^^^^\n",
		"Site:   evil.co.uk   (the host is accounts.google.com.evil.co.uk)",
		"!! It looks like google.com but belongs to evil.co.uk.",
		"!! It is odd.",
		"open exactly this page, of evil.co.uk",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in\n%s", want, shown)
		}
	}
	io.WriteString(c.in, "\nyes please\naccept\n") // an empty line is no consent (URL-11)
	c.decided(mcp.ActionAccept)
	if n := strings.Count(c.text(), "Please type one of the words."); n != 2 {
		t.Errorf("got %d complaints, want 2:\n%s", n, c.text())
	}

	// A long one is not shortened, and the marks follow the domain over the lines.
	c = newConsole(t, Options{Size: func() (int, int) { return 30, 100 }})
	long := "https://a.very.long.name.example.com/" + strings.Repeat("0123456789", 20) + "END"
	c.asks(t.Context(), urlAsk(long))
	shown = c.prompt()
	got, marks := "", 0
	for line := range strings.SplitSeq(shown, "\n") {
		if part, ok := strings.CutPrefix(line, "  │ "); ok {
			got += part
		}
		marks += strings.Count(line, "^")
	}
	if !strings.HasSuffix(got, long) || marks != len("example.com") {
		t.Errorf("got %d marks and the address %q", marks, got)
	}
	io.WriteString(c.in, "d\n")
	c.decided(mcp.ActionDecline)
}

// A person who opens a page themselves has agreed to it all the same (URL-03).
func TestURLByHand(t *testing.T) {
	c := newConsole(t, Options{})
	c.asks(t.Context(), urlAsk("https://x.example/a"))
	c.types("decide nothing\n> ", "o")
	if d := c.decided(mcp.ActionAccept); !d.ByHand {
		t.Errorf("got %+v, want that the person opens the page", d)
	}
}

// A page that is open is on the screen, with the keys that there are, until it is over
// (URL-17). Questions come before it.
func TestPage(t *testing.T) {
	const keys = "r (retry: the page is done), o (open it again), c (give up): "
	page := func() *mcpclient.Ask {
		a := urlAsk("https://x.example/sign-in")
		a.Kind, a.Hash, a.Notes = mcpclient.AskPage, "h", []string{"No browser.\x1b[2J"}
		return a
	}
	for key, want := range map[string]mcpclient.PageAction{"r": mcpclient.PageRetry, "open": mcpclient.PageOpen, "C": mcpclient.PageCancel} {
		c := newConsole(t, Options{})
		c.asks(t.Context(), page())
		if shown := c.expect(keys); !strings.Contains(shown, "!! No browser.\n") || !strings.Contains(shown, "Waiting for this page of the server files:\n  │ https://x.example/sign-in\n") {
			t.Errorf("shown was\n%s", shown)
		}
		io.WriteString(c.in, "\nyes\n"+key+"\n") // what is no key does nothing
		if e := <-c.ends; e.err != nil || e.d.Page != want || e.d.Hash != "h" {
			t.Errorf("%s: got %+v, %v, want %s", key, e.d, e.err, want)
		}
	}

	c := newConsole(t, Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	c.asks(ctx, page())
	c.expect(keys)
	c.asks(t.Context(), formAsk(`"a":{"type":"string"}`))
	c.expect("(The question is withdrawn: another question comes first.)")
	c.types("Press Enter to see the next: ", "r") // was meant for the page
	c.types("> ", ":d")
	c.decided(mcp.ActionDecline)
	c.expect(keys)
	done := errors.New("the page is completed")
	cancel(done)
	c.expect("(The question is withdrawn: the page is completed.)")
	if e := <-c.ends; !errors.Is(e.err, done) {
		t.Errorf("got %+v, %v, want %v", e.d, e.err, done)
	}
}

// TestQuestionsBeforePages: a question comes before a second page, too, which waits longer than it: the line that was
// typed for the first page is asked for once.
func TestQuestionsBeforePages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t, Options{})
		for range 2 {
			a := urlAsk("https://x.example/sign-in")
			a.Kind = mcpclient.AskPage
			c.asks(t.Context(), a)
		}
		synctest.Wait()
		c.asks(t.Context(), formAsk(`"a":{"type":"string"}`))
		c.types("Press Enter to see the next: ", "")
		c.types("> ", ":d")
		c.decided(mcp.ActionDecline)
		for range 2 {
			c.types("c (give up): ", "c")
			if e := <-c.ends; e.err != nil || e.d.Page != mcpclient.PageCancel {
				t.Errorf("a page: got %+v, %v, want it given up", e.d, e.err)
			}
		}
		if n := strings.Count(c.text(), "Press Enter"); n != 1 {
			t.Errorf("Enter was asked for %d times, want once; shown was\n%s", n, c.text())
		}
		c.in.Close() // the goroutine that reads ends
	})
}

// An address that would not have passed the checks is not asked about at all.
func TestURLRefused(t *testing.T) { // URL-16, ROB-9
	for _, url := range []string{"http://example.com/", "https://a@b.example/", "javascript:1", "https://EXAMPLE.com/", "https://example.com/\u202e"} {
		c := newConsole(t, Options{})
		d, err := c.p.Decide(t.Context(), urlAsk(url))
		if err == nil || d != nil || c.text() != "" {
			t.Errorf("%q: got %+v, %v, shown %q", url, d, err, c.text())
		}
	}
}

func samplingAsk() *mcpclient.Ask {
	a := ask(mcpclient.AskSampling)
	a.Message = "Be brief." // the client says the instructions
	a.Sampling = &mcp.CreateMessageParams{
		MaxTokens: 100, SystemPrompt: "Be brief.", IncludeContext: mcp.ContextAllServers, StopSequences: []string{"END"},
		ModelPreferences: &mcp.ModelPreferences{Hints: []mcp.ModelHint{{Name: "small"}}, SpeedPriority: new(0.5)},
		ToolChoice:       &mcp.ToolChoice{Mode: mcp.ToolChoiceRequired},
		Metadata:         json.RawMessage(`{"a":1}`),
		Tools:            []mcp.Tool{{Name: "calc", Description: "Adds\u200b", InputSchema: json.RawMessage(`{"type":"object"}`)}},
		Messages: []mcp.SamplingMessage{
			{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text("What is in it?"), &mcp.ImageContent{Data: []byte("png"), MIMEType: "image/png"}}},
			{Role: mcp.RoleAssistant, Content: mcp.Contents{&mcp.ToolUseContent{ID: "1", Name: "calc", Input: json.RawMessage(`{"x":1}`)}}},
			{Role: mcp.RoleUser, Content: mcp.Contents{&mcp.ToolResultContent{ToolUseID: "1", Content: mcp.Contents{mcp.Text("42")}}}},
			{Role: mcp.RoleUser, Content: mcp.Contents{&mcp.UnknownContent{Type: "odd", Raw: json.RawMessage(`{"type":"odd","y":2}`)}}},
		},
	}
	return a
}

// All of a request is shown, and its texts can be changed, before a model sees it
// (SAMP-40, SECA-43).
func TestSampling(t *testing.T) {
	c := newConsole(t, Options{})
	a := samplingAsk()
	c.asks(t.Context(), a)
	shown := c.expect("decide nothing\n> ")
	if n := strings.Count(shown, "  │ Be brief."); n != 1 {
		t.Errorf("the instructions are shown %d times, want once:\n%s", n, shown)
	}
	for _, want := range []string{
		"The server files asks your model a question, at your cost.", "At most 100 tokens.", "more of your conversations (allServers)", `the model "small"`, `["END"]`,
		"It wants a quick one (0.5 of 1).", "The model must ask for a tool.",
		"1) Instructions for the model:\n  │ Be brief.", "Message 1 of 4, as user:\n2)\n  │ What is in it?", "A picture that cannot be shown here: image/png, 3 bytes, SHA-256 ",
		"A call of the tool calc:\n  │ {\n  │   \"x\": 1", "The result of a tool:\n3)\n  │ 42", "Other content (odd):", `"y": 2`, "description: Adds\n", "1 hidden characters", `"a": 1`,
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in\n%s", want, shown)
		}
	}
	io.WriteString(c.in, "edit 2\n")
	c.types("A line with a single dot ends it", "What is 1+1?")
	c.types("> ", "..")
	c.types("> ", "d")
	c.types("> ", ".")
	c.types("  │ What is 1+1?\n  │ .\n  │ d\n", "edit 3")
	c.types("> ", "a")
	c.types("> ", ":back")
	c.types("decide nothing\n> ", "edit 9")
	c.types("from 1 to 3", "tokens many")
	c.types("at most 100, such as: tokens 50", "tokens 101") // SAMP-08
	c.types("at most 100, such as: tokens 50", "tokens 50")
	c.types("At most 50 tokens.", "accept")
	d := c.decided(mcp.ActionAccept)
	if got := d.Sampling.Messages[0].Content.Text(); got != "What is 1+1?\n.\nd" || d.Sampling.MaxTokens != 50 {
		t.Errorf("got %q, %d tokens", got, d.Sampling.MaxTokens)
	}
	if got := a.Sampling.Messages[0].Content.Text(); got != "What is in it?" || a.Sampling.MaxTokens != 100 {
		t.Errorf("the question itself was changed to %q", got)
	}

	c = newConsole(t, Options{})
	c.asks(t.Context(), a)
	c.types("decide nothing\n> ", "a")
	if d := c.decided(mcp.ActionAccept); d.Sampling != nil || d.Hash != a.Hash { // SECA-41
		t.Errorf("got %+v, want no change, and the hash %s", d, a.Hash)
	}
}

// The model's answer is shown, and can be changed, before the server has it.
func TestSample(t *testing.T) { // SAMP-40
	a := ask(mcpclient.AskSample)
	a.Sample = &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "small", StopReason: mcp.StopEndTurn, Content: mcp.Contents{mcp.Text("The key is 1234.")}}
	c := newConsole(t, Options{})
	c.asks(t.Context(), a)
	shown := c.expect("decide nothing\n> ")
	if !strings.Contains(shown, "would get this answer") || !strings.Contains(shown, "  │ The key is 1234.") || !strings.Contains(shown, "Model:  small") {
		t.Errorf("shown was\n%s", shown)
	}
	io.WriteString(c.in, "edit\n")
	c.types("> ", "I do not know.")
	c.types("> ", ".")
	c.types("decide nothing\n> ", "a")
	d := c.decided(mcp.ActionAccept)
	if d.Sample == nil || d.Sample.Content.Text() != "I do not know." || d.Sample.Model != "small" || a.Sample.Content.Text() != "The key is 1234." {
		t.Errorf("got %+v", d.Sample)
	}
}

// A change of a tool is shown as what it is, even if it is a single character that
// cannot be seen (SECA-37, SECA-38).
func TestTool(t *testing.T) {
	a := ask(mcpclient.AskTool)
	a.Message = ""
	a.Before = &mcp.Tool{Name: "read", Description: "Reads a file.", InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}
	now := *a.Before
	now.Description = "Reads a file.\u200b\nname: write"
	now.Annotations = &mcp.ToolAnnotations{ReadOnlyHint: true}
	a.Tool = &now
	c := newConsole(t, Options{})
	c.asks(t.Context(), a)
	shown := c.expect("decide nothing\n> ")
	for _, want := range []string{
		"has changed the tool read, which you approved", "  │   name: read\n", "  │ - description: Reads a file.\n", "  │ + description: Reads a file.<U+200B>\n",
		"  │ +     name: write\n", "  │   arguments: {\n", "  │ + hints: {\n", "  │ +       \"readOnlyHint\": true\n", "There are 1 hidden characters",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in\n%s", want, shown)
		}
	}
	io.WriteString(c.in, "a\n")
	c.decided(mcp.ActionAccept)

	a.Before = nil
	c = newConsole(t, Options{})
	c.asks(t.Context(), a)
	c.expect("How it was before is not known.")
	c.expect("  │ name: read\n")
	c.types("> ", "no")
	c.decided(mcp.ActionDecline)
}

// A question without what it asks about is an error, not a yes.
func TestEmptyQuestions(t *testing.T) {
	for kind := mcpclient.AskKind(0); kind <= mcpclient.AskPage+1; kind++ {
		c := newConsole(t, Options{})
		if d, err := c.p.Decide(t.Context(), ask(kind)); err == nil || d != nil {
			t.Errorf("%s: got %+v, %v", kind, d, err)
		}
	}
	c := newConsole(t, Options{})
	a := formAsk(`"a":{"type":"object"}`)
	if d, err := c.p.Decide(t.Context(), a); err == nil || d != nil { // ELIC-10
		t.Errorf("a form outside the subset: got %+v, %v", d, err)
	}
}

// Without a person nothing is accepted.
func TestNoTerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	var out strings.Builder
	for _, o := range []Options{{In: r, Out: w}, {In: strings.NewReader("a\na\na\n"), Out: &out}} {
		p := New(o)
		if p.Terminal() {
			t.Error("a pipe is taken for a terminal")
		}
		for _, a := range []*mcpclient.Ask{formAsk(""), urlAsk("https://example.com/"), samplingAsk()} {
			if d, err := p.Decide(t.Context(), a); !errors.Is(err, ErrNoTerminal) || d != nil {
				t.Errorf("%s: got %+v, %v, want %v", a.Kind, d, err, ErrNoTerminal)
			}
		}
		if _, err := p.Ask(t.Context(), "", "> "); !errors.Is(err, ErrNoTerminal) {
			t.Errorf("Ask: got error %v", err)
		}
	}
	if out.Len() > 0 {
		t.Errorf("shown was %q", out.String())
	}
}

// One question is shown at a time; the others wait and can be given up (SECA-33).
func TestQueue(t *testing.T) {
	begun, over := 0, 0
	c := newConsole(t, Options{Begin: func() { begun++ }, End: func() { over++ }})
	c.asks(t.Context(), urlAsk("https://first.example/"))
	c.expect("of first.example")
	c.expect("> ")
	ctx, cancel := context.WithCancelCause(t.Context())
	c.asks(ctx, urlAsk("https://second.example/"))
	c.asks(t.Context(), urlAsk("https://third.example/"))
	gone := errors.New("gone")
	cancel(gone)
	if e := <-c.ends; !errors.Is(e.err, gone) {
		t.Errorf("the question that waited: got %+v, %v", e.d, e.err)
	}
	if all := c.text(); strings.Contains(all, "second") || strings.Contains(all, "third") {
		t.Errorf("two questions at once:\n%s", all)
	}
	io.WriteString(c.in, "a\n")
	c.decided(mcp.ActionAccept)
	c.expect("of third.example")
	c.types("decide nothing\n> ", "d")
	c.decided(mcp.ActionDecline)
	if strings.Contains(c.text(), "second") || begun != 2 || over != 2 {
		t.Errorf("got %d begun, %d over:\n%s", begun, over, c.text())
	}
}

// A question that is withdrawn takes the line with it that was typed for it, so that
// a yes does not go to the next (SECA-51).
func TestWithdrawn(t *testing.T) {
	c := newConsole(t, Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	c.asks(ctx, urlAsk("https://first.example/"))
	c.expect("decide nothing\n> ")
	cause := errors.New("the call was cancelled")
	cancel(cause)
	if e := <-c.ends; !errors.Is(e.err, cause) || e.d != nil {
		t.Errorf("got %+v, %v, want %v", e.d, e.err, cause)
	}
	c.expect("(The question is withdrawn: the call was cancelled.)")
	c.asks(t.Context(), urlAsk("https://second.example/"))
	c.types("Press Enter to see the next: ", "accept")
	c.types("of second.example", "d")
	c.decided(mcp.ActionDecline)
}

// What is typed before a question is shown does not answer it.
func TestTypedAhead(t *testing.T) {
	c := newConsole(t, Options{})
	c.asks(t.Context(), urlAsk("https://first.example/"))
	c.types("decide nothing\n> ", "a\na\naccept\nhalf") // one write, four answers
	c.decided(mcp.ActionAccept)
	c.asks(t.Context(), urlAsk("https://second.example/"))
	c.types("decide nothing\n> ", " of a line")
	c.types("", "d")
	c.decided(mcp.ActionDecline)
}

// A screen that cannot be written to shows nothing, so nothing is agreed to.
func TestWriteFails(t *testing.T) {
	c := newConsole(t, Options{})
	c.fail = errors.New("gone")
	if d, err := c.p.Decide(t.Context(), urlAsk("https://example.com/")); !errors.Is(err, c.fail) || d != nil {
		t.Errorf("got %+v, %v", d, err)
	}
}

func TestLongInput(t *testing.T) {
	c := newConsole(t, Options{})
	c.asks(t.Context(), urlAsk("https://example.com/"))
	c.types("decide nothing\n> ", strings.Repeat("x", 3*maxLine))
	c.types("The line is too long.\n> ", "d")
	c.decided(mcp.ActionDecline)
}

func TestAsk(t *testing.T) {
	c := newConsole(t, Options{})
	lines := make(chan string)
	go func() {
		line, err := c.p.Ask(t.Context(), "May it?\xff %d", "[y/n] ")
		if err != nil {
			line = err.Error()
		}
		lines <- line
	}()
	c.types("May it?\uFFFD %d\n[y/n] ", " yes \r")
	if got := <-lines; got != " yes " {
		t.Errorf("got %q", got)
	}
}

func TestWrap(t *testing.T) {
	tests := []struct {
		line    string
		columns int
		want    []string
	}{
		{"", 10, []string{""}},
		{"short", 10, []string{"short"}},
		{"exactly te", 10, []string{"exactly te"}},
		{"one two three four", 10, []string{"one two ", "three four"}},
		{"abcdefghijklm", 10, []string{"abcdefghij", "klm"}},
		{"東京都庁舎第一本庁舎", 10, []string{"東京都庁舎", "第一本庁舎"}},
		{"a bcdefghijklm", 10, []string{"a bcdefghi", "jklm"}},
	}
	for _, tt := range tests {
		if got := wrap(tt.line, tt.columns); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", tt.want) {
			t.Errorf("wrap(%q, %d): got %q, want %q", tt.line, tt.columns, got, tt.want)
		}
	}
}

func FuzzWrap(f *testing.F) {
	f.Add("one two three", 10)
	f.Add("東京", 19)
	f.Fuzz(func(t *testing.T, line string, most int) {
		line = strings.ToValidUTF8(line, "")
		most = 2 + (most&0xff)%100
		parts := wrap(line, most)
		if strings.Join(parts, "") != line {
			t.Errorf("wrap(%q, %d): got %q", line, most, parts)
		}
		for _, p := range parts {
			used := 0
			for _, r := range p {
				used += columns.Rune(r)
			}
			if used > most {
				t.Errorf("wrap(%q, %d): %q is wider", line, most, p)
			}
		}
	})
}
