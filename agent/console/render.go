package console

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/sanitize"
)

//go:embed templates assets
var files embed.FS

// pages returns the templates, by name; each is a whole page with the layout. They are parsed when
// the first page is shown: each start of a program that links them would pay for it.
var pages = sync.OnceValue(func() map[string]*template.Template {
	out := make(map[string]*template.Template)
	all, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		panic(err) // the pattern is malformed
	}
	for _, file := range all {
		out[strings.TrimSuffix(path.Base(file), ".html")] = template.Must(template.New("layout.html").Funcs(template.FuncMap{
			"json": indent, "counted": counted, "time": clock, "iso": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
			"seg": url.PathEscape, "short": func(s string) string { return clip.Text(sanitize.Reveal(s), 200) }, "plain": sanitize.Reveal,
			"spent": func(what string, lines []spentLine) any {
				return struct {
					What  string
					Lines []spentLine
				}{what, lines}
			},
			"age":  func(ms int64) string { return took(time.Duration(ms) * time.Millisecond) },
			"mark": func(r rune) string { return map[rune]string{'-': "gone", '+': "new"}[r] },
		}).ParseFS(files, "templates/layout.html", file))
	}
	return out
})

// menu is what each page links to.
var menu = []struct{ Path, Name string }{{"/", "Inbox"}, {"/runs", "Runs"}, {"/jobs", "Jobs"}, {"/servers", "Servers"}, {"/models", "Models"}, {"/tree", "Tree"}}

// view is what a page shows.
type view struct {
	Title   string
	Visitor string // empty on a page without the menu
	Live    string // what the page follows: see [Console.live]; empty for nothing
	Role    Role   // of the visitor
	Sent    bool   // it answers a form: loaded again, it is another page
	Body    any
}

// render answers with a page. It is written once all of it is there.
func (c *Console) render(w http.ResponseWriter, r *http.Request, status int, name string, v view) {
	var page bytes.Buffer
	v.Sent = r.Method == http.MethodPost
	if err := pages()[name].Execute(&page, v); err != nil {
		c.log.Error("a page of the console cannot be shown", "page", r.URL.Path, "error", err)
		http.Error(w, "This page cannot be shown; the log of the program says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // a visitor who has gone
}

// show renders a page with the menu.
func (c *Console) show(v *visit, name string, page view) error {
	page.Visitor, page.Role = v.name, v.role
	c.render(v.w, v.r, http.StatusOK, name, page)
	return nil
}

// Menu is what a page links to.
func (view) Menu() any { return menu }

// Operates reports whether the visitor may start, end and change runs and jobs.
func (v view) Operates() bool { return v.Role >= Operator }

// say answers with one sentence.
func (c *Console) say(w http.ResponseWriter, r *http.Request, status int, text string) {
	c.render(w, r, status, "text", view{Title: http.StatusText(status), Body: text})
}

func (c *Console) asset(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeFileFS(w, r, files, "assets/"+r.PathValue("name"))
}

// indent is JSON with a line for each value; what is no JSON stays as it is.
func indent(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
}

// clock is a time as a person on this machine reads it.
func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	if now := time.Now(); now.Sub(t).Abs() < 12*time.Hour {
		return t.Local().Format(time.TimeOnly)
	}
	return t.Local().Format(time.DateTime)
}

// took is a duration in at most three digits.
func took(d time.Duration) string {
	switch {
	case d < 0:
		return ""
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// counted is a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
