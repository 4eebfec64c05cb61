package admin

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
)

// Local answers for this process, as its socket does for others.
type Local struct {
	opts    Options
	process Process
}

// NewLocal returns a Local.
func NewLocal(o Options) *Local {
	return &Local{opts: o, process: Process{PID: os.Getpid(), Command: o.Command, Started: time.Now().UTC()}}
}

// PID is the process.
func (l *Local) PID() int { return l.process.PID }

// Health returns the identity of the process.
func (l *Local) Health(context.Context) (*Process, error) { return &l.process, nil }

// Tree returns the live actors.
func (l *Local) Tree(ctx context.Context) (*Tree, error) {
	t := treeOf(l.opts.System, time.Now(), l.opts.Labels)
	t.Process = l.process
	l.describe(ctx, t.Actors)
	return &t, nil
}

// ErrNoServer is the error of a name that no server of the process has.
var ErrNoServer = errors.New("the process has no server of this name")

// Servers returns the servers of the process, without their tools.
func (l *Local) Servers(context.Context) ([]ServerState, error) {
	if l.opts.Inspector == nil {
		return []ServerState{}, nil
	}
	return l.opts.Inspector.Servers(), nil
}

// ServerNamed returns a server with its tools, or [ErrNoServer].
func (l *Local) ServerNamed(ctx context.Context, name string) (*ServerDetail, error) {
	if l.opts.Inspector == nil {
		return nil, ErrNoServer
	}
	return l.opts.Inspector.Server(ctx, name)
}

// Reconnect has the process connect to a server now, unless it is connected; it does not wait. The
// error is [ErrNoServer] for a name that it does not have.
func (l *Local) Reconnect(_ context.Context, name string) error {
	if l.opts.Inspector == nil {
		return ErrNoServer
	}
	return l.opts.Inspector.Reconnect(name)
}

// Models returns the providers of models.
func (l *Local) Models(context.Context) ([]ProviderState, error) {
	if l.opts.Inspector == nil {
		return []ProviderState{}, nil
	}
	return l.opts.Inspector.Providers(), nil
}

// maxDescribed bounds the runs that are read from the store for one tree.
const maxDescribed = 200

// describe adds states and titles of runs from the store.
func (l *Local) describe(ctx context.Context, all []Actor) {
	if l.opts.Store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, exchange)
	defer cancel()
	looked := 0
	for i := range all {
		a := &all[i]
		id, found := strings.CutPrefix(a.Path[strings.LastIndexByte(a.Path, '/')+1:], "run-")
		if a.Kind != actors.KindRun.String() || !found {
			continue
		}
		if looked++; looked > maxDescribed {
			return
		}
		if r, err := l.opts.Store.Run(ctx, id); err == nil { // else it has no journal
			title := clip.Text(r.Title, 200)
			if a.Title == "" { // Labels had nothing
				a.State, a.Title = string(r.State), title
			} else {
				a.Title += ": " + title
			}
		}
	}
}
