package provider

import (
	"context"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/llm"
)

// away is since when and why a provider does not work, and what the log has of it. It is the
// supervisor's, and guarded by the provider's lock.
type away struct {
	class   string // of the newest error that says so; empty while it works
	since   time.Time
	refuses bool // it refuses the key or the account; else its circuit is not closed

	told     bool      // the log has it
	lastTold time.Time // of any of its times away
	news     []news    // for the log, once the lock is free
}

// news is a line for the log.
type news struct {
	text  string
	attrs []slog.Attr
}

// tellEvery bounds the lines of a provider that comes and goes, as one does to which two models
// have keys of their own and one key is refused. What is left out is told by the next failure
// after that time.
const tellEvery = time.Minute

// maxErrorText bounds the error of a line, in bytes.
const maxErrorText = 500

// leaves notes that the provider is away, as an error says. It is called for each error that does.
func (s *supervisor) leaves(refuses bool, err error) {
	a, now := &s.away, time.Now()
	if a.class == "" {
		a.since = now
	}
	if a.class == "" || a.refuses != refuses {
		a.refuses, a.told = refuses, false
	}
	a.class = llm.Class(err)
	if a.told || !a.lastTold.IsZero() && now.Sub(a.lastTold) < tellEvery {
		return
	}
	a.told, a.lastTold = true, now
	attrs := []slog.Attr{slog.String("provider", s.p.name), slog.String("class", a.class), slog.String("error", clip.Text(err.Error(), maxErrorText))}
	text := "a provider of models refuses its key or account: each request tries again"
	if !refuses {
		text = "a provider of models is left alone after repeated failures: its circuit is open"
		attrs = append(attrs, slog.Time("until", s.until))
	}
	a.news = append(a.news, news{text, attrs})
}

// returns notes that the provider works.
func (s *supervisor) returns() {
	a := &s.away
	if a.class == "" {
		return
	}
	if a.told {
		a.news = append(a.news, news{"a provider of models works again",
			[]slog.Attr{slog.String("provider", s.p.name), slog.String("class", a.class), slog.Duration("away", time.Since(a.since))}})
	}
	a.class, a.since, a.refuses, a.told = "", time.Time{}, false, false
}

// takeNews returns what is to be told, which is told once.
func (s *supervisor) takeNews() []news {
	n := s.news
	s.news = nil
	return n
}

// report writes lines to the log. It is called without the lock.
func (p *provider) report(all []news) {
	for _, n := range all {
		p.group.opts.Logger.LogAttrs(context.Background(), slog.LevelWarn, n.text, n.attrs...)
	}
}

// count counts a failed attempt by the class of its error; nil counts nothing.
func (p *provider) count(err error) {
	if err == nil {
		return
	}
	if p.errors == nil {
		p.errors = make(map[string]int64)
	}
	p.errors[llm.Class(err)]++
}
