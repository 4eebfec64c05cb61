package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/store"
)

// Options says what a process shows to others. System is required.
type Options struct {
	System  *actors.System
	Command string // such as "worker"
	// Store has the runs of the process, whose states and titles the tree shows. Nil
	// shows none.
	Store store.Journal
	// Labels describes an actor of the tree; it must not block. Nil adds nothing.
	Labels func(actors.Info) Label
	// Wake is called when another process has changed the store. It must not
	// block. Nil does nothing.
	Wake func()
	// Status is the answer of GET /status, as JSON. Nil answers {}.
	Status func() any
}

// Server answers on the socket of this process.
type Server struct {
	opts    Options
	process Process
	path    string
	http    *http.Server
	served  chan struct{} // closed after the last connection

	closing sync.Once
	closed  error
}

// exchange bounds one request with its answer.
const exchange = 5 * time.Second

// Listen makes the socket of this process in dir, and answers on it until Close. There
// is one for each process: that of another call in the same process is taken over.
func Listen(dir string, o Options) (*Server, error) {
	if o.System == nil {
		return nil, errors.New("opening the admin socket: there is no system")
	}
	if err := own(dir); err != nil {
		return nil, fmt.Errorf("opening the admin socket: %w", err)
	}
	pid := os.Getpid()
	s := &Server{opts: o, path: filepath.Join(dir, strconv.Itoa(pid)+suffix), served: make(chan struct{}),
		process: Process{PID: pid, Command: o.Command, Started: time.Now().UTC()}}
	_ = os.Remove(s.path) // of a process that had the same id
	l, err := net.Listen("unix", s.path)
	if err != nil {
		return nil, fmt.Errorf("opening the admin socket: %w", err)
	}
	if err := os.Chmod(s.path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the admin socket: %w", err), l.Close())
	}
	s.http = &http.Server{
		Handler: s.handler(), ReadTimeout: exchange, WriteTimeout: 4 * exchange, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(o.System.Log().Handler(), slog.LevelDebug),
	}
	o.System.Go("admin socket", func() {
		defer close(s.served)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			o.System.Log().Warn("the admin socket is gone", "error", err)
		}
	})
	return s, nil
}

// Close ends the socket and all that goes over it, and removes it. It must be called
// before the system is shut down, which waits for it.
func (s *Server) Close() error {
	s.closing.Do(func() {
		s.closed = s.http.Close()
		<-s.served
	})
	return s.closed
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { s.answer(w, s.process) })
	mux.HandleFunc("GET /tree", func(w http.ResponseWriter, r *http.Request) {
		t := treeOf(s.opts.System, time.Now(), s.opts.Labels)
		t.Process = s.process
		s.describe(r.Context(), t.Actors)
		s.answer(w, t)
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		if s.opts.Status == nil {
			s.answer(w, struct{}{})
			return
		}
		s.answer(w, s.opts.Status())
	})
	mux.HandleFunc("POST /wake", func(w http.ResponseWriter, _ *http.Request) {
		if s.opts.Wake != nil {
			s.opts.Wake()
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return http.MaxBytesHandler(mux, 0)
}

// answer writes v, or an error: the peer is a process of the same user.
func (s *Server) answer(w http.ResponseWriter, v any) {
	body, err := jsonx.Marshal(v)
	if err != nil {
		http.Error(w, "writing the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // if it does not arrive the peer knows
}

// maxDescribed bounds the runs that are read from the store for one tree.
const maxDescribed = 200

// describe adds states and titles of runs from the store.
func (s *Server) describe(ctx context.Context, all []Actor) {
	if s.opts.Store == nil {
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
		if r, err := s.opts.Store.Run(ctx, id); err == nil { // else it has no journal
			title := clip.Text(r.Title, 200)
			if a.Title == "" { // Labels had nothing
				a.State, a.Title = string(r.State), title
			} else {
				a.Title += ": " + title
			}
		}
	}
}
