package admin

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/webserver"
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
	// Runs changes runs of the process. Nil lets other processes change none.
	Runs Runs
	// Inspector shows the servers and models of the process. Nil shows none.
	Inspector Inspector
}

// Server answers on the socket of this process.
type Server struct {
	Local
	path   string
	http   *http.Server
	served chan struct{} // closed after the last connection

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
	l := NewLocal(o)
	s := &Server{Local: *l, path: filepath.Join(dir, strconv.Itoa(l.process.PID)+suffix), served: make(chan struct{})}
	_ = os.Remove(s.path) // of a process that had the same id
	socket, err := net.Listen("unix", s.path)
	if err != nil {
		return nil, fmt.Errorf("opening the admin socket: %w", err)
	}
	if err := os.Chmod(s.path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the admin socket: %w", err), socket.Close())
	}
	s.http = webserver.New(s.handler())
	s.http.ReadTimeout, s.http.WriteTimeout, s.http.MaxHeaderBytes = exchange, 4*exchange, 8<<10
	s.http.ErrorLog = slog.NewLogLogger(o.System.Log().Handler(), slog.LevelDebug)
	o.System.Go("admin socket", func() {
		defer close(s.served)
		if err := s.http.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
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
	serve(mux, s, "GET /health", func(r *http.Request) (any, error) { return s.Health(r.Context()) })
	serve(mux, s, "GET /tree", func(r *http.Request) (any, error) { return s.Tree(r.Context()) })
	serve(mux, s, "GET /servers", func(r *http.Request) (any, error) { return s.Servers(r.Context()) })
	serve(mux, s, "GET /servers/{name}", func(r *http.Request) (any, error) { return s.ServerNamed(r.Context(), r.PathValue("name")) })
	serve(mux, s, "POST /servers/{name}/reconnect", func(r *http.Request) (any, error) {
		return struct{}{}, s.Reconnect(r.Context(), r.PathValue("name"))
	})
	serve(mux, s, "GET /models", func(r *http.Request) (any, error) { return s.Models(r.Context()) })
	s.serveRuns(mux)
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

// serve answers a path with what f returns.
func serve(mux *http.ServeMux, s *Server, path string, f func(*http.Request) (any, error)) {
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		v, err := f(r)
		switch {
		case errors.Is(err, ErrNoServer), errors.Is(err, store.ErrNotFound):
			http.Error(w, err.Error(), http.StatusNotFound)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			s.answer(w, v)
		}
	})
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
