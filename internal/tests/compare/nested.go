package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// questions are what each call of ask puts.
const questions = 10

var nestedColumns = []string{colCPU, colRate, colP50, colP99, colMallocs, colBytes}

// asked is a request of the server, or the answer to ask.
type asked struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// answerTo returns the answer to the server's question; nil when data answers
// ask itself.
func answerTo(data []byte) ([]byte, error) {
	var m asked
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("a message: got %.200q: %w", data, err)
	}
	switch {
	case m.Method == "elicitation/create" && m.ID != nil:
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"ok":true}}}`, m.ID), nil
	case m.Method == "" && bytes.Contains(m.Result, []byte("asked "+strconv.Itoa(questions)+" times")):
		return nil, nil
	}
	return nil, fmt.Errorf("a message: got %.300q", data)
}

// rounds calls ask, and measures each question and answer as one request.
func rounds(p *process, t times, ask func(id int, question func()) error) (sample, error) {
	var latencies []time.Duration
	var last time.Time
	id := 10
	run := func(calls int) error {
		for range calls {
			id++
			count := 0
			last = time.Now()
			err := ask(id, func() {
				now := time.Now()
				latencies = append(latencies, now.Sub(last))
				last = now
				count++
			})
			if err == nil && count != questions {
				err = fmt.Errorf("got %d questions, want %d", count, questions)
			}
			if err != nil {
				return fmt.Errorf("ask: %w", err)
			}
		}
		return nil
	}
	if err := run(1 + t.asks/10); err != nil {
		return nil, err
	}
	latencies = latencies[:0]
	var start time.Time
	u, err := p.measure(func() error { start = time.Now(); return run(t.asks) })
	if err != nil {
		return nil, err
	}
	return record(p, u, time.Since(start), latencies)
}

func askBody(id int) string {
	return callBody(strconv.Itoa(id), "ask", `{"n":`+strconv.Itoa(questions)+`}`, "")
}

func nestedStdio(p *process, t times) (sample, error) {
	c, err := openPipe(p)
	if err != nil {
		return nil, err
	}
	return rounds(p, t, func(id int, question func()) error {
		if err := c.send(askBody(id)); err != nil {
			return err
		}
		for {
			line, err := c.out.ReadSlice('\n')
			if err != nil {
				return err
			}
			answer, err := answerTo(line)
			if answer == nil {
				return err
			}
			question()
			if err := c.send(string(answer)); err != nil {
				return err
			}
		}
	})
}

// nestedHTTP has the questions on the stream of the call, and answers them over
// another connection.
func nestedHTTP(p *process, t times) (sample, error) {
	calls, err := dial(p.addr)
	if err != nil {
		return nil, err
	}
	defer calls.close()
	answers, err := dial(p.addr)
	if err != nil {
		return nil, err
	}
	defer answers.close()
	session, err := answers.open(p.addr)
	if err != nil {
		return nil, err
	}
	headers := sessionHeaders(session)
	return rounds(p, t, func(id int, question func()) error {
		if err := calls.send(httpRequest("POST", p.addr, askBody(id), headers...)); err != nil {
			return err
		}
		r, err := calls.head()
		if err != nil {
			return err
		}
		if r.status != 200 || !r.stream || !r.chunked {
			body, _ := calls.rest(&r)
			return fmt.Errorf("got %d %.300q, want a stream of events", r.status, body)
		}
		return calls.events(func(data []byte) error {
			answer, err := answerTo(data)
			if answer == nil {
				return err
			}
			question()
			ack, err := answers.do(httpRequest("POST", p.addr, string(answer), headers...))
			if err == nil && ack.status != 202 {
				err = fmt.Errorf("answering a question: got %d %.200q, want 202", ack.status, ack.body)
			}
			return err
		})
	})
}
