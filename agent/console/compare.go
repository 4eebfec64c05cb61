package console

import (
	"errors"
	"mime"
	"net/http"
	"strings"

	"github.com/troupe-dev/troupe/internal/linediff"
	"github.com/troupe-dev/troupe/internal/runfile"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// maxCompared bounds the lines of a comparison that a page shows.
const maxCompared = 2000

// diffPage compares two runs.
type diffPage struct {
	ID, With string
	Lines    []diffLine
	Same     bool
	Left     int // lines that are not shown
	Missing  bool
}

// diffLine is a line of both runs, or of one.
type diffLine struct{ Class, Mark, Text string }

// diff compares a run with another one, step by step.
func (c runPages) diff(v *visit) error {
	p := diffPage{ID: v.r.PathValue("run"), With: strings.TrimSpace(v.r.URL.Query().Get("with")), Same: true}
	var sides [2][]string
	for i, id := range []string{p.With, p.ID} {
		entries, err := runlog.Entries(v.r.Context(), c.opts.Store, id)
		var invalid *store.InvalidError
		if i == 0 && (errors.Is(err, store.ErrNotFound) || errors.As(err, &invalid)) {
			p.Missing = true
			return c.show(v, "diff", view{Title: "Comparison", Body: p})
		}
		if err != nil {
			return err
		}
		sides[i] = runfile.Steps(entries)
	}
	for _, l := range linediff.Lines(sides[0], sides[1]) {
		line := diffLine{"", " ", l.Text}
		switch l.Mark {
		case '-':
			line.Class, line.Mark = "gone", "−"
		case '+':
			line.Class, line.Mark = "new", "+"
		}
		p.Same = p.Same && line.Class == ""
		if len(p.Lines) == maxCompared {
			p.Left++
			continue
		}
		p.Lines = append(p.Lines, line)
	}
	return c.show(v, "diff", view{Title: "Comparison", Body: p})
}

// export sends a run as a file, without what looks like a secret.
func (c runPages) export(v *visit) error {
	all, err := runfile.Load(v.r.Context(), c.opts.Store, v.r.PathValue("run"))
	if err == nil {
		all, err = runfile.Redact(all)
	}
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "application/jsonl; charset=utf-8")
	v.w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": "run-" + v.r.PathValue("run") + ".jsonl"}))
	v.w.WriteHeader(http.StatusOK)
	_ = runfile.Write(v.w, all) // a visitor who has gone
	return nil
}
