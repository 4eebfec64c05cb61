package console

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/admin"
	"github.com/troupe-dev/troupe/internal/linediff"
)

// Process is a process whose servers, models and actors the console shows: that of a runtime of this
// program ([Handler]), or, in the program troupe, any worker or server of the user.
type Process interface {
	PID() int
	Tree(context.Context) (*Tree, error)
	Servers(context.Context) ([]ServerState, error)
	ServerNamed(ctx context.Context, name string) (*ServerDetail, error)
	Reconnect(ctx context.Context, server string) error
	Models(context.Context) ([]ProviderState, error)
	Health(context.Context) (*ProcessIdentity, error)
}

// What a [Process] answers.
type (
	Tree            = admin.Tree
	ServerState     = admin.ServerState
	ServerDetail    = admin.ServerDetail
	ProviderState   = admin.ProviderState
	ProcessIdentity = admin.Process
)

// Bounds of what is asked for one page.
const (
	maxProcesses = 32
	askTime      = 2 * time.Second // for a process
	maxBranches  = 2000            // of the trees of a page
	askEvery     = 2 * time.Second // for an open page
)

// processPart is what a page shows of one process.
type processPart[T any] struct {
	Process *ProcessIdentity
	PID     int
	Error   string // why nothing is known
	What    T
}

// each asks the processes one after the other. One that has ended is left out.
func each[T any](ctx context.Context, c *Console, ask func(context.Context, Process) (T, error)) ([]processPart[T], error) {
	if c.opts.Processes == nil {
		return nil, nil
	}
	all, err := c.opts.Processes(ctx)
	if err != nil {
		return nil, err
	}
	var parts []processPart[T]
	for _, p := range all[:min(len(all), maxProcesses)] {
		part := processPart[T]{PID: p.PID()}
		one, cancel := context.WithTimeout(ctx, askTime)
		if part.Process, err = p.Health(one); err == nil {
			part.What, err = ask(one, p)
		}
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, admin.ErrGone):
			continue
		case err != nil:
			part.Error = err.Error()
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// processPages are the pages of what is in the memory of processes: servers, actors, models.
type processPages struct{ *Console }

func (c processPages) servers(v *visit) error {
	all, err := each(v.r.Context(), c.Console, func(ctx context.Context, p Process) ([]ServerState, error) { return p.Servers(ctx) })
	if err != nil {
		return err
	}
	return c.show(v, "servers", view{Title: "Servers", Live: "servers", Body: all})
}

// serverPage is one server of a process.
type serverPage struct {
	*ServerDetail
	Process  *ProcessIdentity
	Tools    []toolPart
	Operates bool
	Path     string
	Asked    bool // to connect
}

// toolPart is a tool with what has changed since it was accepted.
type toolPart struct {
	admin.ToolState
	Changes []linediff.Line
}

// Changed reports whether the tool is not what was accepted.
func (t *toolPart) Changed() bool { return t.Pin == admin.PinChanged }

// maxChanges bounds the lines of a comparison on a page, and near how many equal lines are left around
// what differs.
const (
	maxChanges = 400
	around     = 3
)

// process finds the process that a path names.
func (c processPages) process(ctx context.Context, pid string) (Process, error) {
	n, err := strconv.Atoi(pid)
	if err != nil || c.opts.Processes == nil {
		return nil, admin.ErrNoServer
	}
	all, err := c.opts.Processes(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(p Process) bool { return p.PID() == n })
	if i < 0 {
		return nil, admin.ErrNoServer
	}
	return all[i], nil
}

func (c processPages) server(v *visit) error {
	ctx, cancel := context.WithTimeout(v.r.Context(), askTime)
	defer cancel()
	p, err := c.process(ctx, v.r.PathValue("pid"))
	if err != nil {
		return c.noServer(v, err)
	}
	page := serverPage{Operates: v.role >= Operator, Path: "/servers/" + v.r.PathValue("pid") + "/" + url.PathEscape(v.r.PathValue("server")),
		Asked: v.r.URL.Query().Has("asked")}
	if page.Process, err = p.Health(ctx); err != nil {
		return c.noServer(v, err)
	}
	if page.ServerDetail, err = p.ServerNamed(ctx, v.r.PathValue("server")); err != nil {
		return c.noServer(v, err)
	}
	for i := range page.All {
		t := toolPart{ToolState: page.All[i]}
		if t.Before != "" {
			t.Changes = near(linediff.Lines(strings.Split(t.Before, "\n"), strings.Split(t.Definition, "\n")))
		}
		page.Tools = append(page.Tools, t)
	}
	return c.show(v, "server", view{Title: page.Name, Live: "servers", Body: &page})
}

// near leaves out equal lines that are far from what differs.
func near(all []linediff.Line) []linediff.Line {
	var out []linediff.Line
	last := -1 // the last line that is kept
	for i := range all {
		keep := false
		for k := max(0, i-around); k <= min(len(all)-1, i+around); k++ {
			keep = keep || all[k].Mark != ' '
		}
		if !keep {
			continue
		}
		if i > last+1 {
			out = append(out, linediff.Line{Mark: '…'})
		}
		if out, last = append(out, all[i]), i; len(out) >= maxChanges {
			return append(out, linediff.Line{Mark: '…'})
		}
	}
	return out
}

// noServer answers for an unknown process or server, or one that has ended.
func (c processPages) noServer(v *visit, err error) error {
	if errors.Is(err, admin.ErrNoServer) || errors.Is(err, admin.ErrGone) {
		c.say(v.w, v.r, http.StatusNotFound, "There is no such server: its process may have ended.")
		return nil
	}
	return err
}

func (c processPages) reconnect(v *visit) error {
	ctx, cancel := context.WithTimeout(v.r.Context(), askTime)
	defer cancel()
	p, err := c.process(ctx, v.r.PathValue("pid"))
	if err == nil {
		err = p.Reconnect(ctx, v.r.PathValue("server"))
	}
	if err != nil {
		return c.noServer(v, err)
	}
	c.log.Info("a visitor of the console has a server connected to", "visitor", v.name, "server", v.r.PathValue("server"), "process", p.PID())
	http.Redirect(v.w, v.r, "/servers/"+strconv.Itoa(p.PID())+"/"+url.PathEscape(v.r.PathValue("server"))+"?asked", http.StatusSeeOther)
	return nil
}

// treePage is the actors of the processes.
type treePage struct {
	Processes []processPart[*treePart]
	More      bool // there are more actors than are shown
}

// treePart is the actors of one process.
type treePart struct {
	Tree     *Tree
	Branches []admin.Branch
	Tasks    int
}

func (c processPages) tree(v *visit) error {
	var p treePage
	left := maxBranches
	var err error
	p.Processes, err = each(v.r.Context(), c.Console, func(ctx context.Context, one Process) (*treePart, error) {
		t, err := one.Tree(ctx)
		if err != nil {
			return nil, err
		}
		part := &treePart{Tree: t, Branches: t.Branches()}
		for _, task := range t.Tasks {
			part.Tasks += task.Running
		}
		part.Branches = cut(part.Branches, &left)
		p.More = p.More || t.More > 0 || left <= 0
		return part, nil
	})
	if err != nil {
		return err
	}
	return c.show(v, "tree", view{Title: "Tree", Live: "tree", Body: p})
}

// cut keeps as many branches as are left.
func cut(all []admin.Branch, left *int) []admin.Branch {
	for i := range all {
		if *left--; *left < 0 {
			return all[:i]
		}
		all[i].Below = cut(all[i].Below, left)
	}
	return all
}

// atMost asks how something stands every two seconds only, however often the page is looked after.
func (c processPages) atMost(now func(context.Context) (string, error)) func(context.Context) (string, error) {
	var last string
	var at time.Time
	return func(ctx context.Context) (string, error) {
		if time.Since(at) < askEvery {
			return last, nil
		}
		text, err := now(ctx)
		if err == nil {
			last, at = text, time.Now()
		}
		return text, err
	}
}

// serversNow is how the servers stand, as a text that changes with it.
func (c processPages) serversNow(ctx context.Context) (string, error) {
	all, err := each(ctx, c.Console, func(ctx context.Context, p Process) ([]ServerState, error) { return p.Servers(ctx) })
	text := ""
	for _, p := range all {
		text += fmt.Sprint(p.PID, p.Error)
		for _, s := range p.What {
			text += fmt.Sprintf("%q", []any{s.Name, s.State, s.Connected, s.Error, s.ListError, s.Login, s.Tools})
		}
	}
	return text, err
}

// treeNow is how the actors stand, but for their ages, as a text that changes with it.
func (c processPages) treeNow(ctx context.Context) (string, error) {
	all, err := each(ctx, c.Console, func(ctx context.Context, p Process) (*Tree, error) { return p.Tree(ctx) })
	sum := fnv.New128a()
	for _, p := range all {
		fmt.Fprint(sum, p.PID, p.Error)
		if p.What == nil {
			continue
		}
		for i := range p.What.Actors {
			a := &p.What.Actors[i]
			fmt.Fprintf(sum, "%q %q %q %d %q", a.Path, a.State, a.Title, a.Restarts, a.LastError)
		}
	}
	return string(sum.Sum(nil)), err
}
