package mcpserver

import "github.com/troupe-dev/troupe/mcp"

// RelayedForm asks a person to fill in a form as [FormQuestion] does, for a program that
// passes on the question of another server. It goes as it is, also where it seems to ask
// for a secret: the client that shows it warns of that, and knows who asks.
func RelayedForm(key string, p *mcp.ElicitParams) *Question {
	q := FormQuestion(key, p)
	q.relayed = true
	return q
}

// ConsentQuestion sends a person to a web page as [URLQuestion] does, for a program that
// passes on the question of another server: it has its answer once the person has
// agreed, and the page may take its time. Url is sent as it is. Who asks says itself when
// the page is done, by [Server.CompleteElicitation] of the [Question.ElicitationID], so
// that the client hears of it.
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
