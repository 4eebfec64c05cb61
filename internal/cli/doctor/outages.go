package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/admin"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/store"
)

// checkOutages says which providers of models are away for processes that run, and which jobs wait
// for one.
func checkOutages(ctx context.Context, d *doctor) []check {
	return append(checkProcesses(ctx, d), checkWaiting(ctx, d)...)
}

// checkProcesses asks the processes of this user. One that ends meanwhile is left out.
func checkProcesses(ctx context.Context, d *doctor) (out []check) {
	clients, err := d.env.Processes()
	if err != nil {
		return []check{{Area: "outages", Status: checkWarning, Text: "the processes that run cannot be asked: " + err.Error()}}
	}
	for _, c := range clients {
		all, err := c.Models(ctx)
		if err != nil {
			continue
		}
		for i := range all {
			if all[i].Class != "" {
				out = append(out, awayCheck(c.PID(), &all[i]))
			}
		}
	}
	return out
}

// awayCheck says that a provider is away for a process.
func awayCheck(pid int, p *admin.ProviderState) check {
	c := check{Area: "outages", Name: p.Name, Status: checkWarning, Detail: p,
		Text: fmt.Sprintf("process %d: it is away since %s (%s): %s", pid, p.Since.Local().Format(time.DateTime), p.Class, env.Shorten(env.Plain(p.Error), 300)),
		Fix:  "nothing, if the provider comes back: work that waits for it goes on by itself"}
	switch p.Class {
	case "auth":
		c.Fix = "give it a key that the provider accepts, and restart the process; or have the provider accept this one again: work that waits goes on by itself"
	case "quota":
		c.Fix = "add quota to the account of the provider: work that waits goes on by itself"
	}
	if !p.Until.IsZero() {
		c.Text += "\ntried again at " + p.Until.Local().Format(time.DateTime)
	}
	return c
}

// maxWaiting bounds the jobs that are read.
const maxWaiting = 10_000

// waitsFor is how the error of a job begins that waits for a provider.
const waitsFor = "waits for provider "

// checkWaiting counts the jobs that wait for a provider, by what they say of it. It makes no store.
func checkWaiting(ctx context.Context, d *doctor) []check {
	path, err := d.env.StoreFile()
	if err != nil || d.env.NoStore {
		return nil
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s, err := d.env.OpenStore()
	if err != nil {
		return nil // it is said there
	}
	defer s.Close()
	var order []string
	jobs := make(map[string][]store.Job) // by the provider and the class
	read := 0
	for q := (store.JobQuery{States: []store.JobState{store.JobWaiting}, Brief: true}); read < maxWaiting; {
		page, err := s.Jobs(ctx, q)
		if err != nil {
			return nil // it is said there
		}
		if len(page) == 0 {
			break
		}
		read += len(page)
		for _, j := range page {
			why, ok := strings.CutPrefix(j.Error, waitsFor)
			if !ok {
				continue
			}
			if parts := strings.SplitN(why, ": ", 3); len(parts) == 3 { // its own words are of one job
				why = parts[0] + ": " + parts[1]
			}
			if jobs[why] == nil {
				order = append(order, why)
			}
			jobs[why] = append(jobs[why], j)
		}
		q.After = page[len(page)-1].Cursor()
	}
	var out []check
	for _, why := range order {
		out = append(out, waitingCheck(why, jobs[why], time.Now()))
	}
	return out
}

// waitingCheck says which jobs wait for a provider, the newest first, and when they go on.
func waitingCheck(why string, jobs []store.Job, now time.Time) check {
	c := check{Area: "outages", Status: checkWarning, Fix: "nothing, if the provider comes back: a worker goes on with them by itself; troupe jobs show says more"}
	c.Name, _, _ = strings.Cut(why, ": ")
	c.Text = fmt.Sprintf("%s for it: %s", env.Count(len(jobs), "job")+" wait", env.Plain(why))
	if len(jobs) == 1 {
		c.Text = fmt.Sprintf("the job %s waits for it: %s", env.Plain(jobs[0].ID), env.Plain(why))
	}
	var next time.Time
	for i := range jobs {
		if at := jobs[i].NotBefore; at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if !next.IsZero() {
		c.Text += "\ntried again at " + next.Local().Format(time.DateTime)
	}
	return c
}
