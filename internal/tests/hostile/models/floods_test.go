package models

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/llm"
)

// maxPerTurn is what one turn may hold at the most, whatever its server says (ROB-3).
const maxPerTurn = 80 << 20

// attack is what a server does. A nil error is wanted where whole is set.
type attack struct {
	name  string
	say   func(d *dialect) http.HandlerFunc
	whole bool // the turn completes
	bad   bool // where arguments are a text the turn completes, and the call must not be made
	long  bool // takes a while
}

func streams(f func(d *dialect, r *http.Request, w *bufio.Writer)) func(*dialect) http.HandlerFunc {
	return func(d *dialect) http.HandlerFunc {
		return d.stream(func(r *http.Request, w *bufio.Writer) { f(d, r, w) })
	}
}

// whole ends a turn as it should be.
func (d *dialect) whole() string {
	return d.text("hi") + d.finish("stop") + d.usage("10", "1") + d.end
}

var attacks = []attack{
	{name: "empty deltas for ever", say: streams(func(d *dialect, _ *http.Request, w *bufio.Writer) { forever(w, d.empty) })},
	{name: "comments and empty lines for ever", say: streams(func(_ *dialect, _ *http.Request, w *bufio.Writer) { forever(w, ": ping\n\n\n") })},
	{name: "thinking for ever", say: streams(func(d *dialect, _ *http.Request, w *bufio.Writer) { forever(w, d.thinking(strings.Repeat("x", 1000))) })},
	{name: "text for ever", say: streams(func(d *dialect, _ *http.Request, w *bufio.Writer) { forever(w, d.text(strings.Repeat("x", 1000))) })},
	{name: "one line for ever", say: streams(func(_ *dialect, _ *http.Request, w *bufio.Writer) { forever(w, "data: {") })},
	{name: "100,000 calls", say: streams(func(d *dialect, _ *http.Request, w *bufio.Writer) {
		for i := range 100_000 {
			if _, err := w.WriteString(d.call(i, strconv.Quote(fmt.Sprint("c", i)), `"add"`, `{}`)); err != nil {
				return
			}
		}
		_, _ = w.WriteString(d.whole())
	})},
	{name: "1,000,000 calls in a line", say: streams(func(d *dialect, _ *http.Request, w *bufio.Writer) {
		before, after, _ := strings.Cut(d.call(0, `"c"`, `"add"`, `{}`), `"tool_calls":[`)
		_, rest, _ := strings.Cut(after, `]`)
		_, _ = w.WriteString(before + `"tool_calls":[` + strings.Repeat("{},", 1_000_000) + "{}]" + rest + d.whole())
	})},
	{name: "the fragments of a name", say: streams(func(d *dialect, _ *http.Request, w *bufio.Writer) {
		piece := d.call(0, `"c"`, `"`+strings.Repeat("n", 100)+`"`, `""`) + d.call(0, `"c"`, `"`+strings.Repeat("m", 100)+`"`, `""`)
		for range 50_000 {
			if _, err := w.WriteString(piece); err != nil {
				return
			}
		}
		_, _ = w.WriteString(d.whole())
	})},
	{name: "entries for ever in a line", say: streams(func(d *dialect, _ *http.Request, w *bufio.Writer) {
		list := "[" + strings.Repeat("{},", 1_300_000) + "{}]"
		if d.name == "openai" {
			_, _ = w.WriteString(`data: {"choices":` + list + "}\n" + `data: {"choices":[{"index":0,"delta":{"content":` + list + "}}]}\n" + d.whole())
		}
		_, _ = w.WriteString(`{"message":{"tool_calls":` + list + "}}\n" + d.whole())
	})},
	{name: "ids of 1 MB", say: streams(func(d *dialect, _ *http.Request, w *bufio.Writer) {
		for i := range 250 {
			id := fmt.Sprintf("%d%s", i, strings.Repeat("i", 1<<20))
			if _, err := w.WriteString(d.call(i, strconv.Quote(id), `"add"`, `{}`)); err != nil {
				return
			}
		}
		_, _ = w.WriteString(d.whole())
	})},
	{name: "words of 1 MB", say: streams(func(d *dialect, _ *http.Request, w *bufio.Writer) {
		long := strings.Repeat("w\\u001b[31m", 100_000)
		if d.name == "openai" {
			_, _ = w.WriteString(`data: {"model":"` + long + `","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"` + long + "\"}]}\n\n" + d.end)
			return
		}
		_, _ = w.WriteString(`{"model":"` + long + `","message":{"content":"hi"},"done":true,"done_reason":"` + long + "\"}\n")
	}), whole: true},
	{name: "deep arguments", say: streams(func(d *dialect, _ *http.Request, w *bufio.Writer) {
		deep := `{"a":` + strings.Repeat(`[`, 200_000) + strings.Repeat(`]`, 200_000) + `}`
		if d.name == "openai" {
			deep = strconv.Quote(deep)
		}
		_, _ = w.WriteString(d.call(0, `"c"`, `"add"`, deep) + d.whole())
	}), bad: true},
	{name: "arguments of 100 MB", say: streams(func(d *dialect, _ *http.Request, w *bufio.Writer) {
		args := `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
		if d.name == "openai" {
			args = strconv.Quote(args)
		}
		for i := range 100 {
			if _, err := w.WriteString(d.call(i, `"c"`, `"add"`, args)); err != nil {
				return
			}
		}
		_, _ = w.WriteString(d.whole())
	})},
	{name: "the finish first", say: streams(func(d *dialect, _ *http.Request, w *bufio.Writer) {
		if d.name == "ollama" {
			_, _ = w.WriteString(d.usage("1", "1") + d.whole())
			return
		}
		_, _ = w.WriteString(d.finish("stop") + d.text("late") + d.whole())
	}), whole: true},
	{name: "empty deltas after the finish for ever", say: streams(func(d *dialect, _ *http.Request, w *bufio.Writer) {
		if d.name == "ollama" {
			_, _ = w.WriteString(d.whole())
		}
		_, _ = w.WriteString(d.text("hi") + d.finish("stop"))
		forever(w, d.empty)
	}), whole: true},
	{name: "a letter at a time for ever", say: streams(func(d *dialect, _ *http.Request, w *bufio.Writer) { forever(w, d.text("x")) }), long: true},
	{name: "garbage after the end for ever", say: streams(func(d *dialect, _ *http.Request, w *bufio.Writer) {
		_, _ = w.WriteString(d.whole())
		forever(w, "garbage\n")
	}), whole: true},
	{name: "a gzip bomb", say: func(d *dialect) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", d.kind)
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			zeros := make([]byte, 1<<20)
			for range 4096 {
				if _, err := z.Write(zeros); err != nil {
					return
				}
			}
		}
	}},
	{name: "a gzip bomb of empty lines", say: func(d *dialect) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", d.kind)
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			lines := []byte(strings.Repeat("\n", 1<<20))
			for {
				if _, err := z.Write(lines); err != nil {
					return
				}
			}
		}
	}},
	{name: "an error of 100 MB", say: func(*dialect) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"`)
			for range 100 {
				if _, err := io.WriteString(w, strings.Repeat("x", 1<<20)); err != nil {
					return
				}
			}
		}
	}},
	{name: "HTML with 200", say: func(*dialect) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, "<html>log in</html>")
		}
	}},
	{name: "HTML that says it is a stream", say: streams(func(_ *dialect, _ *http.Request, w *bufio.Writer) {
		_, _ = w.WriteString("<html>log in</html>\n")
	})},
	{name: "a picture", say: func(*dialect) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "image/png")
			_, _ = io.WriteString(w, "\x89PNG\r\n\x1a\n")
		}
	}},
}

// SECA-43, ROB-3, ROB-7: whatever a server of models says, the turn ends, in bounded
// memory, and with one outcome.
func TestAttacks(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			if a.long && (mcptest.Race || testing.Short()) {
				t.Skip("reads 128 MB, event by event")
			}
			eachDialect(t, func(t *testing.T, d *dialect) {
				if a.long && d.name != "openai" {
					t.Skip("the bound is the same")
				}
				m := d.client(serve(t, a.say(d)))
				var resp *llm.Response
				var err error
				begin := time.Now()
				grown := mcptest.Peak(maxPerTurn, func() { resp, err = run(t, m, hello()) })
				t.Logf("%.1f MB in %v: %.120v", float64(grown)/(1<<20), time.Since(begin).Round(time.Millisecond), err)
				if grown > maxPerTurn {
					t.Errorf("the heap has grown by %d MB, want %d at most", grown>>20, maxPerTurn>>20)
				}
				bad := a.bad && d.name == "openai"
				if (err == nil) != (a.whole || bad) {
					t.Errorf("Generate: got %v, want success: %v", err, a.whole || bad)
				}
				if bad && err == nil && (len(resp.Cut) != 1 || len(resp.Calls()) > 0) {
					t.Errorf("got the calls %v, want them left out", resp.Calls())
				}
				if err == nil {
					checkResponse(t, resp)
				}
			})
		})
	}
}

// checkResponse holds a turn against what all of them promise.
func checkResponse(t testing.TB, resp *llm.Response) {
	t.Helper()
	if len(resp.Finish) > 256 || len(resp.Model) > 256 {
		t.Errorf("the turn has a finish reason of %d bytes, and a model's name of %d", len(resp.Finish), len(resp.Model))
	}
	if strings.ContainsFunc(string(resp.Finish)+resp.Model, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("the turn has what a terminal obeys in %.100q or %.100q", resp.Finish, resp.Model)
	}
	seen := make(map[string]bool)
	for _, c := range resp.Calls() {
		if len(c.ID) > 64<<10 || len(c.Name) > 256 || seen[c.ID] {
			t.Fatalf("a call has an id of %d bytes, seen %v, and a name of %d", len(c.ID), seen[c.ID], len(c.Name))
		}
		seen[c.ID] = true
	}
	if u := resp.Usage; u.Input <= 0 || u.Output < 0 || u.Input+u.Output <= 0 || u.Input+u.Output > 1<<31 {
		t.Errorf("the turn has cost %+v", u)
	}
}
