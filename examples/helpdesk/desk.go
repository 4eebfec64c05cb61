package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// ticket is one question of a user. Its JSON form is what a model reads.
type ticket struct {
	ID   int    `json:"id"`
	Text string `json:"text"`
	Open bool   `json:"open"`
}

// desk keeps the tickets. Handlers of many clients use it at the same time.
type desk struct {
	base string // where its pages are; empty on a pipe

	mu      sync.Mutex
	tickets []ticket
}

func newDesk(base string) *desk {
	return &desk{base: base, tickets: []ticket{{1, "The printer prints only in blue.", true}, {2, "I lost my password.", true}}}
}

type findIn struct {
	Text string `json:"text" jsonschema:"in any case"`
}

// found is an object, since the structured result of a tool is one.
type found struct {
	Tickets []ticket `json:"tickets"`
}

func (d *desk) find(_ context.Context, in findIn) (found, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out found
	for _, t := range d.tickets {
		if strings.Contains(strings.ToLower(t.Text), strings.ToLower(in.Text)) {
			out.Tickets = append(out.Tickets, t)
		}
	}
	if len(out.Tickets) == 0 {
		return found{}, fmt.Errorf("no ticket contains %q", in.Text) // the model reads it, and tries another text
	}
	return out, nil
}

func (d *desk) checkAll(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
	d.mu.Lock()
	n := len(d.tickets)
	d.mu.Unlock()
	for i := range n {
		if ctx.Err() != nil { // the client has cancelled, or is gone
			return "", context.Cause(ctx)
		}
		req.Progress(float64(i+1), float64(n), fmt.Sprintf("ticket %d of %d", i+1, n))
		req.Log(mcp.LogInfo, "desk", map[string]int{"checked": i + 1})
	}
	return fmt.Sprintf("%d tickets are in order.", n), nil
}

type ticketIn struct {
	ID int `json:"id" jsonschema:"the number of the ticket"`
}

// confirmation is a form: its fields are what the user is asked for.
type confirmation struct {
	Solved bool   `json:"solved" jsonschema:"is the problem solved?"`
	Note   string `json:"note,omitempty" jsonschema:"what has helped"`
}

func (d *desk) close(ctx context.Context, req *mcpserver.ToolRequest, in ticketIn) (string, error) {
	t, err := d.ticket(in.ID)
	if err != nil {
		return "", err
	}
	answer, err := mcpserver.Elicit[confirmation](ctx, req, "confirm", fmt.Sprintf("Close ticket %d: %s", t.ID, t.Text))
	if err != nil {
		return "", err // declined, dismissed, or a client that has no forms: the model reads which
	}
	if !answer.Solved {
		return fmt.Sprintf("Ticket %d stays open.", t.ID), nil
	}
	return mcpserver.Once(ctx, req, "closed", func(context.Context) (string, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.tickets[t.ID-1].Open = false
		return fmt.Sprintf("Ticket %d is closed. %s", t.ID, answer.Note), nil
	})
}

func (d *desk) rate(ctx context.Context, req *mcpserver.ToolRequest, in ticketIn) (string, error) {
	if d.base == "" {
		return "", errors.New("this server has no pages: start it with -http")
	}
	page := d.base + "/rate/" + mcpserver.ElicitationID
	if err := req.ElicitURL(ctx, "rate", fmt.Sprintf("Rate the work on ticket %d.", in.ID), page); err != nil {
		return "", err
	}
	return "Thank you for the rating.", nil
}

// ratePage is the page that rate sends the user to. A real page knows its user by a login
// of its own, in a cookie; this one takes the token of the MCP client.
func (d *desk) ratePage(s *mcpserver.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, ok := userOf(r)
		if !ok {
			http.Error(w, "log in first", http.StatusUnauthorized)
			return
		}
		if r.Method != http.MethodPost { // a visit has no effect, only the button has
			fmt.Fprint(w, `<!doctype html><form method="post"><button>It was good</button></form>`)
			return
		}
		err := s.CompleteElicitation(strings.TrimPrefix(r.URL.Path, "/rate/"), user)
		if errors.Is(err, mcpserver.ErrNoElicitation) { // expired, unknown, or of another user
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, "Thank you. You can close this page.")
	})
}

func (d *desk) draftReply(ctx context.Context, req *mcpserver.ToolRequest, in ticketIn) (string, error) {
	t, err := d.ticket(in.ID)
	if err != nil {
		return "", err
	}
	answer, err := req.Sample(ctx, "draft", &mcp.CreateMessageParams{
		SystemPrompt: "You answer tickets of a help desk in two friendly sentences.",
		Messages:     []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text(t.Text)}}},
		MaxTokens:    200,
	})
	if err != nil {
		return "", err // the client has no model, or its user has said no
	}
	return answer.Content.Text(), nil
}

func (d *desk) ticket(id int) (ticket, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if id < 1 || id > len(d.tickets) {
		return ticket{}, fmt.Errorf("there is no ticket %d: search with find_ticket", id)
	}
	return d.tickets[id-1], nil
}
