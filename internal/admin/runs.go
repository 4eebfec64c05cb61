package admin

import (
	"context"
	"net/http"
	"net/url"

	"github.com/troupe-dev/troupe/store"
)

// Runs changes the runs of a process. A run that it does not work on is a [store.ErrNotFound].
type Runs interface {
	Cancel(ctx context.Context, run, cause string) error
	// Park leaves the run in the store, to be resumed.
	Park(ctx context.Context, run string) error
	// Saying returns what the model has said so far in the turn under way, with the turn's number.
	Saying(ctx context.Context, run string) (turn int, text string, err error)
}

// said is the answer of GET /runs/{id}/text.
type said struct {
	Turn int    `json:"turn"`
	Text string `json:"text"`
}

// parkTime bounds the wait for what is under way of a run that is parked.
const parkTime = 3 * exchange

// serveRuns answers the paths of runs.
func (s *Server) serveRuns(mux *http.ServeMux) {
	runs := func(path string, f func(ctx context.Context, r Runs, req *http.Request) (any, error)) {
		serve(mux, s, path, func(req *http.Request) (any, error) {
			if s.opts.Runs == nil {
				return nil, store.ErrNotFound
			}
			ctx, cancel := context.WithTimeout(req.Context(), parkTime)
			defer cancel()
			return f(ctx, s.opts.Runs, req)
		})
	}
	runs("POST /runs/{id}/cancel", func(ctx context.Context, r Runs, req *http.Request) (any, error) {
		return struct{}{}, r.Cancel(ctx, req.PathValue("id"), req.URL.Query().Get("cause"))
	})
	runs("POST /runs/{id}/park", func(ctx context.Context, r Runs, req *http.Request) (any, error) {
		return struct{}{}, r.Park(ctx, req.PathValue("id"))
	})
	runs("GET /runs/{id}/text", func(ctx context.Context, r Runs, req *http.Request) (any, error) {
		turn, text, err := r.Saying(ctx, req.PathValue("id"))
		return said{turn, text}, err
	})
}

// Cancel ends a run of the process. The cause is for the run's journal.
func (c *Client) Cancel(ctx context.Context, run, cause string) error {
	_, err := c.do(ctx, http.MethodPost, "/runs/"+url.PathEscape(run)+"/cancel?cause="+url.QueryEscape(cause))
	return err
}

// Park ends the work on a run of the process, and leaves the run in the store.
func (c *Client) Park(ctx context.Context, run string) error {
	_, err := c.do(ctx, http.MethodPost, "/runs/"+url.PathEscape(run)+"/park")
	return err
}

// Saying asks what the model has said so far in a run's turn under way.
func (c *Client) Saying(ctx context.Context, run string) (turn int, text string, err error) {
	var s said
	err = c.get(ctx, "/runs/"+url.PathEscape(run)+"/text", &s)
	return s.Turn, s.Text, err
}
