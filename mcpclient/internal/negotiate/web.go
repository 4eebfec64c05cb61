package negotiate

import (
	"context"
	"errors"
	"net/http"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/streamable"
)

// speak tells a link over HTTP what the next messages are of.
func (n *Negotiator) speak(v mcp.Version) {
	if link := n.streamable(); link != nil {
		link.Speak(v)
	}
}

// listen opens the stream of a legacy session over HTTP (SHL-20).
func (n *Negotiator) listen() {
	if link := n.streamable(); link != nil {
		link.ListenGET()
	}
}

// streamable returns the link if it is one, else nil.
func (n *Negotiator) streamable() *streamable.Link {
	if n.Web == nil {
		return nil
	}
	return n.Web.Streamable()
}

// oldSSE reports whether the link is of HTTP+SSE, which only legacy servers have.
func (n *Negotiator) oldSSE() bool { return n.Web != nil && n.streamable() == nil }

// noVerdict returns an error of the probe that says nothing about the server's era
// (ERA-05): it has to let us in first, or be there at all. On stdio there is none.
func (n *Negotiator) noVerdict(err error) error {
	if n.Web == nil {
		return nil
	}
	refused, _ := errors.AsType[*call.TransportError](err)
	switch {
	case n.Web.WantsAuthorization(err):
		return conn.Permanent(err)
	case errors.Is(err, call.ErrConnectionLost):
		return err
	case refused != nil && refused.Status == http.StatusInternalServerError && isAnswer(err):
		return nil // an error reply proves that the server is up (SHM-13)
	case refused != nil && (refused.Status/100 == 5 || refused.Status == http.StatusTooManyRequests):
		n.leaveAlone(err)
		return err
	}
	return nil
}

// isAnswer reports whether an error came as one of JSON-RPC.
func isAnswer(err error) bool {
	_, ok := errors.AsType[*mcp.Error](err)
	return ok
}

// leaveAlone heeds Retry-After before the next attempt.
func (n *Negotiator) leaveAlone(err error) {
	if status, ok := errors.AsType[*streamable.StatusError](err); ok {
		n.Web.LeaveAlone(status.RetryAfter)
	}
}

// refused decides what follows a handshake over HTTP that has failed: a modern server may
// have been taken for a legacy one (ERA-02), or the server may have the old transport only
// (SSE-10). asked is set if it has answered in the modern way already, in the negative.
func (n *Negotiator) refused(ctx context.Context, s *conn.Session, err error, asked bool) error {
	if err == nil || n.Web == nil || ctx.Err() != nil || errors.Is(err, conn.ErrPermanent) {
		return err
	}
	if err := n.noVerdict(err); err != nil {
		return err
	}
	n.Eras.Set(n.Key, mcp.EraUnknown) // it may have been upgraded meanwhile (ERA-01)
	status := 0
	if e, ok := errors.AsType[*call.TransportError](err); ok {
		status = e.Status
	}
	_, modern := modernError(err)
	if modern = modern || status == http.StatusNotFound && errors.Is(err, mcp.ErrMethodNotFound); modern {
		if len(n.of(mcp.EraModern)) > 0 && !asked {
			return n.discover(ctx, s)
		}
	}
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
		if n.Fallback && n.streamable() != nil && (!modern || status == http.StatusNotFound) {
			n.Log.Debug("trying HTTP+SSE", "because", err)
			n.Web.Refuse(err)
			return conn.Redial(err)
		}
	}
	return err
}
