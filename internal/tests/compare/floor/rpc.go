package main

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/troupe-dev/troupe/internal/tests/compare/kit"
)

// message is everything a client says, in one typed struct.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
		RequestID string    `json:"requestId"` // of notifications/cancelled: the load generator's are strings there
	} `json:"params"`
	Result struct {
		Action string `json:"action"`
	} `json:"result"`
}

// arguments are those of all three tools.
type arguments struct {
	kit.Echo
	Key string `json:"key"`
	N   int    `json:"n"`
}

type response struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result"`
}

type result struct {
	Content []content `json:"content"`
}

type content struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func textResult(text string) *result { return &result{[]content{{"text", text}}} }

// handshake is what a client wants to hear first.
var handshake = json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"floor","version":"1"}}`)

// peer is one client: what waits for its cancels and its answers.
type peer struct {
	mu      sync.Mutex
	cancels map[string]context.CancelFunc
	answers map[string]chan string
	asked   int
}

func newPeer() *peer {
	return &peer{cancels: make(map[string]context.CancelFunc), answers: make(map[string]chan string)}
}

// wait blocks until the call with the id is cancelled.
func (p *peer) wait(ctx context.Context, id, key string) {
	ctx, cancel := context.WithCancel(ctx)
	p.mu.Lock()
	p.cancels[id] = cancel
	p.mu.Unlock()
	block(ctx, key)
}

func block(ctx context.Context, key string) {
	kit.Notify("S", key)
	<-ctx.Done()
	kit.Notify("D", key)
}

func (p *peer) cancel(id string) {
	id = strconv.Quote(id)
	p.mu.Lock()
	cancel := p.cancels[id]
	delete(p.cancels, id)
	p.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

type question struct {
	JSONRPC string         `json:"jsonrpc"`
	ID      string         `json:"id"`
	Method  string         `json:"method"`
	Params  questionParams `json:"params"`
}

type questionParams struct {
	Message         string          `json:"message"`
	RequestedSchema json.RawMessage `json:"requestedSchema"`
}

// ask puts n questions by send, one after the other.
func (p *peer) ask(ctx context.Context, n int, send func(any)) *result {
	for range n {
		answer := make(chan string, 1)
		p.mu.Lock()
		p.asked++
		id := "q" + strconv.Itoa(p.asked)
		p.answers[strconv.Quote(id)] = answer
		p.mu.Unlock()
		send(question{"2.0", id, "elicitation/create", questionParams{kit.Question, kit.Form}})
		select {
		case <-answer:
		case <-ctx.Done():
			return textResult("cancelled")
		}
	}
	return textResult("asked " + strconv.Itoa(n) + " times")
}

func (p *peer) answered(m *message) {
	p.mu.Lock()
	answer := p.answers[string(m.ID)]
	delete(p.answers, string(m.ID))
	p.mu.Unlock()
	if answer != nil {
		answer <- m.Result.Action
	}
}
