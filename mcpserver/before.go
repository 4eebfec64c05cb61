package mcpserver

import (
	"net/http"

	"github.com/troupe-dev/troupe/mcp"
)

// Before does with a request what [Server.Handler] does before it looks at the message,
// for a program that stands before several servers and has to know which of them a
// request is for: where it comes from, who sends it, and the body of a POST, which is
// nil for other methods. With ok false the request was answered. The body must not be
// used after release.
func (s *Server) Before(w http.ResponseWriter, r *http.Request) (p *Principal, body []byte, release func(), ok bool) {
	nothing := func() {}
	if !s.gate(w, r) || s.cors(w, r) {
		return nil, nil, nothing, false
	}
	post := r.Method == http.MethodPost
	if post {
		if status, why := checkPost(r, s.opts.MaxMessage); status != 0 {
			if status == http.StatusUnsupportedMediaType {
				w.Header()["Accept-Encoding"] = valueIdentity
			}
			refuse(w, status, mcp.ID{}, invalid(why))
			return nil, nil, nothing, false
		}
	}
	if p, ok = s.authenticate(w, r); !ok || !post {
		return p, nil, nothing, ok
	}
	in := takeIntake()
	if !s.readBody(w, r, p, in) {
		in.release()
		return nil, nil, nothing, false
	}
	return p, in.body, in.release, true
}

// IsModern reports whether a message over HTTP is one of 2026-07-28 (ERA-12).
func IsModern(r *http.Request, m *mcp.Message) bool {
	return m.Modern || modernHeader(r.Header[headerVersion])
}

// RelayedForm asks a person to fill in a form as [FormQuestion] does, for a program that
// passes on the question of another server. It goes as it is, also where it seems to ask
// for a secret: whoever shows it warns of that (SECA-31), and knows who asks.
func RelayedForm(key string, p *mcp.ElicitParams) *Question {
	q := FormQuestion(key, p)
	q.relayed = true
	return q
}

// ConsentQuestion sends a person to a web page as [URLQuestion] does, for a program that
// passes on the question of another server: it has its answer once the person has
// agreed, and the page may take its time. Url is sent as it is. Who asks says itself when
// the page is done, by [Server.CompleteElicitation] of the [Question.ElicitationID], so
// that the client hears of it (URL-30).
func ConsentQuestion(key, message, url string) *Question {
	q := URLQuestion(key, message, url)
	q.page.consent = true
	return q
}

// ElicitationID returns by which id the client of 2025-11-25 knows the page of a
// question; empty before it was asked, and for other questions.
func (q *Question) ElicitationID() string {
	if q.page == nil {
		return ""
	}
	return q.page.id
}

// Task returns the id of the task that the call has become, empty while it is none.
func (q *Request) Task() string {
	if t, ok := q.live().task.(*task); ok {
		return t.ID()
	}
	return ""
}
