package terminal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/weburl"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// url asks for consent to open one page (URL-11, URL-12). It is shown whole, never
// shortened, in letters that look like themselves only: what is opened is this text.
func (q *question) url() (*mcpclient.Decision, error) {
	page, err := weburl.Check(q.ask.URL.URL)
	if err == nil && page.URL != q.ask.URL.URL {
		err = fmt.Errorf("%w: it is not in the form in which it is opened", weburl.ErrRefused)
	}
	if err != nil {
		return nil, fmt.Errorf("asking on the terminal: %w", err)
	}
	q.header("asks you to open a page in your browser")
	q.say("It says:")
	q.quote(q.ask.Message)
	q.say("\nThe page:")
	q.underlined(page)
	q.say("")
	site := page.Domain
	if site == "" {
		site = page.Host
	}
	if page.Domain != "" && page.Domain != page.Host {
		q.field("Site", page.Domain+"   (the host is "+page.Host+")")
	} else {
		q.field("Site", site)
	}
	for _, w := range warnings(page.Warnings, q.ask.URL.Warnings) {
		q.warn("%s", clean(w))
	}
	q.say("  This program has not checked the page, and does not see what you do there.")
	for {
		key, _, err := q.menu("open exactly this page, of "+site, choice{"o", "open myself", "yes, but I open it myself"})
		if err != nil {
			return nil, err
		}
		switch key {
		case "a":
			return &mcpclient.Decision{Action: mcp.ActionAccept}, nil
		case "o":
			return &mcpclient.Decision{Action: mcp.ActionAccept, ByHand: true}, nil
		}
	}
}

// page shows a page that is open, and what can be done about it (URL-17).
func (q *question) page() (*mcpclient.Decision, error) {
	page, err := weburl.Check(q.ask.URL.URL)
	if err != nil {
		return nil, fmt.Errorf("asking on the terminal: %w", err)
	}
	for _, note := range q.ask.Notes {
		q.warn("%s", clean(note))
	}
	q.say("\nWaiting for this page of the server %s:", q.server)
	q.underlined(page)
	for {
		line, err := q.read("r (retry: the page is done), o (open it again), c (give up): ")
		if err != nil {
			return nil, err
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "r", "retry":
			return &mcpclient.Decision{Action: mcp.ActionAccept, Page: mcpclient.PageRetry}, nil
		case "o", "open":
			return &mcpclient.Decision{Action: mcp.ActionAccept, Page: mcpclient.PageOpen}, nil
		case "c", "cancel", "give up":
			return &mcpclient.Decision{Action: mcp.ActionCancel, Page: mcpclient.PageCancel}, nil
		}
	}
}

// login shows a login that is waited for, which a person makes with another program.
func (q *question) login() (*mcpclient.Decision, error) {
	l := q.ask.Login
	q.say("\n%s\nA person has to log in at the server %s.", strings.Repeat("─", 40), q.server)
	for _, f := range [][2]string{{"Log in", l.Command}, {"Where", l.Where}, {"At", l.Resource}, {"Scopes", strings.Join(l.Scopes, " ")}} {
		if f[1] != "" {
			q.field(f[0], clean(f[1]))
		}
	}
	for {
		line, err := q.read("r (retry: there is a login), d (do without it), c (decide nothing): ")
		if err != nil {
			return nil, err
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "r", "retry":
			return &mcpclient.Decision{Action: mcp.ActionAccept}, nil
		case "d", "decline":
			return &mcpclient.Decision{Action: mcp.ActionDecline}, nil
		case "c", "cancel":
			return &mcpclient.Decision{Action: mcp.ActionCancel}, nil
		}
	}
}

// warnings joins two lists without repeating.
func warnings(a, b []string) []string {
	all := slices.Clone(a)
	for _, w := range b {
		if !slices.Contains(all, w) {
			all = append(all, w)
		}
	}
	return all
}

// underlined shows an address with a line of marks under its registrable domain, or
// the host where there is none (URL-14). It is ASCII, so each character is a column.
func (q *question) underlined(page *weburl.View) {
	part := page.Domain
	if part == "" {
		part = page.Host
	}
	start := strings.Index(page.URL, "://") + 3
	if i := strings.Index(page.URL[start:], page.Host); i >= 0 {
		start += i + len(page.Host) - len(part)
	}
	end := start + len(part)
	columns, _ := q.dimensions()
	columns -= 1 + len([]rune(bar))
	for from := 0; from < len(page.URL); from += columns {
		to := min(from+columns, len(page.URL))
		q.line(bar + page.URL[from:to])
		if a, b := max(from, start), min(to, end); a < b {
			q.line(strings.Repeat(" ", len([]rune(bar))+a-from) + strings.Repeat("^", b-a))
		}
	}
}
