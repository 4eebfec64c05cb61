package llmtest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
)

// maxBody bounds the body of a request.
const maxBody = 32 << 20

// Server plays a script over HTTP. It answers
//
//   - OpenAI's /v1/chat/completions, /v1/responses and /v1/models, and the first two in the places of Azure's older API, and
//   - Ollama's /api/chat, /api/show, /api/tags, /api/pull, /api/ps and /api/version.
//
// Requests are decoded strictly: a field that the API does not have, a message it would
// refuse, or a path it does not know is answered with an error and recorded as a failure
// of the client. With [Server.Service] it also wants back what it attaches to its answers. Make one with [NewServer]; set its fields before its first request.
type Server struct {
	// Models are the names it has; others are answered as not found. Nil means that it
	// lists "scripted" and takes any name.
	Models []string
	// Key is the bearer token it demands. Empty demands none.
	Key string
	// Capabilities is what /api/show tells. Nil means completion, tools, vision and thinking.
	Capabilities []string
	// Context is the context length that /api/show tells, in tokens. Zero means 131,072.
	Context int
	// Version is what /api/version tells. Empty means 0.17.4.
	Version string
	// Service has it behave as one beside its API. Empty is no such service.
	Service Service
	// Pulls are the lines with which /api/pull answers, as they are. Nil means those of a
	// small model that comes well.
	Pulls []string

	script *script
	mux    *http.ServeMux

	mu        sync.Mutex
	recorded  []Recorded
	failures  []string
	active    int
	maxActive int
	issued    map[string]string // what was attached, by the IDs of the calls
}

// Recorded is a request that a [Server] has got.
type Recorded struct {
	Method, Path string
	Header       http.Header
	Body         []byte
	// Request is what the body of a chat means, nil for others and for those refused.
	Request *llm.Request
}

// NewServer returns a server that plays the turns, one for each chat. A chat beyond the last
// is answered with status 500 and recorded as a failure.
func NewServer(turns ...Turn) *Server {
	s := &Server{script: &script{turns: turns}, mux: http.NewServeMux()}
	s.mux.HandleFunc("POST /v1/chat/completions", s.chat(openAI{}))
	s.mux.HandleFunc("POST /v1/responses", s.chat(responses{}))
	s.mux.HandleFunc("POST "+azurePath+"deployments/{deployment}/chat/completions", s.azure(openAI{}))
	s.mux.HandleFunc("POST "+azurePath+"responses", s.azure(responses{}))
	s.mux.HandleFunc("GET /v1/models", s.listOpenAI)
	s.mux.HandleFunc("POST /api/chat", s.chat(ollama{}))
	s.mux.HandleFunc("POST /api/show", s.show)
	s.mux.HandleFunc("GET /api/tags", s.tags)
	s.mux.HandleFunc("POST /api/pull", s.pull)
	s.mux.HandleFunc("GET /api/ps", s.tags)
	s.mux.HandleFunc("GET /api/version", s.version)
	s.mux.HandleFunc("/", s.unknown)
	return s
}

// Loop makes the script begin again behind its last turn, and returns the server.
func (s *Server) Loop() *Server {
	s.script.loop = true
	return s
}

// Requests returns what the server has got so far, in order of arrival.
func (s *Server) Requests() []Recorded {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.recorded)
}

// Chats returns the chats among the requests that were understood: Request is set in each.
func (s *Server) Chats() []Recorded {
	return slices.DeleteFunc(s.Requests(), func(r Recorded) bool { return r.Request == nil })
}

// Failures returns what was wrong with requests. Tests expect it to be empty.
func (s *Server) Failures() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.failures)
}

// Remaining returns how many turns have not been asked for.
func (s *Server) Remaining() int { return s.script.remaining() }

// Active returns how many chats are being answered.
func (s *Server) Active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active
}

// MaxActive returns the most chats that were being answered at once.
func (s *Server) MaxActive() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.maxActive
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.Key != "" && !s.knows(r) {
		http.Error(w, `{"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, http.StatusUnauthorized)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// knows reports whether a request has the key: Azure's older API has a header of its own.
func (s *Server) knows(r *http.Request) bool {
	if strings.HasPrefix(r.URL.Path, azurePath) {
		return r.Header.Get("api-key") == s.Key && r.Header.Get("Authorization") == ""
	}
	return r.Header.Get("Authorization") == "Bearer "+s.Key
}

// azurePath is where Azure's older API is.
const azurePath = "/openai/"

// azure answers as Azure's older API does: the version of the API is in the query.
func (s *Server) azure(d dialect) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("api-version") == "" {
			s.record(r, nil, nil)
			s.fail("%s: there is no api-version", r.URL.Path)
			http.Error(w, `{"error":{"code":"404","message":"Resource not found"}}`, http.StatusNotFound)
			return
		}
		s.chat(d)(w, r)
	}
}

// dialect is one of the APIs.
type dialect interface {
	// decode reads the body of a chat, strictly. It says whether the answer is a stream.
	decode(body []byte) (*chatRequest, error)
	// contentType is that of a stream.
	contentType() string
	// sse says whether a stream has events; otherwise it has lines.
	sse() bool
	// documents makes what is sent for a step, and for the end of a turn.
	documents(p *playing) documents
	// whole makes the answer that is no stream.
	whole(p *playing) string
	// errorBody is the body of an error answer.
	errorBody(status int, code, message string) string
}

// chatRequest is a request as both dialects understand it.
type chatRequest struct {
	llm.Request
	stream       bool
	includeUsage bool // of chat completions
	encrypted    bool // of the Responses API: reasoning is wanted encrypted
}

// playing is a turn being sent.
type playing struct {
	req    *chatRequest
	turn   Turn
	number int // of the request, from one

	service  Service
	attached string // what the service attaches to the answer
}

// callID is that of a call of the turn: of no other service.
func (p *playing) callID(i int) string {
	id := callID(p.number, i)
	if p.service != "" {
		id = string(p.service) + "_" + id
	}
	return id
}

// chat answers chats in a dialect.
func (s *Server) chat(d dialect) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			s.record(r, body, nil)
			s.refuse(w, d, http.StatusRequestEntityTooLarge, "", err)
			return
		}
		req, err := d.decode(body)
		if err == nil {
			err = req.Validate()
		}
		if err != nil {
			s.record(r, body, nil)
			s.fail("%s: %v", r.URL.Path, err)
			s.refuse(w, d, http.StatusBadRequest, "invalid_request_error", err)
			return
		}
		s.record(r, body, &req.Request)
		if s.Models != nil && !slices.Contains(s.Models, req.Model) {
			s.refuse(w, d, http.StatusNotFound, "model_not_found", fmt.Errorf("model '%s' not found", req.Model))
			return
		}
		if err := s.wants(d, &req.Request); err != nil {
			s.refuse(w, d, http.StatusBadRequest, "invalid_request_error", err)
			return
		}
		s.enter()
		defer s.leave()
		turn, number, err := s.script.take(&req.Request)
		if err != nil {
			s.fail("%v", err)
			s.refuse(w, d, http.StatusInternalServerError, "", err)
			return
		}
		p := &playing{req: req, turn: turn.resolve(r.Context(), &req.Request), number: number}
		s.attach(d, p)
		play(w, r, d, p)
	}
}

// play sends a turn.
func play(w http.ResponseWriter, r *http.Request, d dialect, p *playing) {
	ctx := r.Context()
	if (step{wait: p.turn.wire.HeaderDelay}).trouble(ctx) != nil {
		return
	}
	if p.turn.reply != nil {
		answer(w, p.turn.reply)
		return
	}
	if !p.req.stream || p.turn.wire.NotAStream {
		for _, s := range p.turn.steps {
			if err := s.trouble(ctx); err != nil {
				failed(w, d, nil, err)
				return
			}
		}
		answer(w, &reply{status: http.StatusOK, body: d.whole(p)})
		return
	}
	var send *sender // nil until there is something to send
	for _, doc := range d.documents(p) {
		if err := doc.before.trouble(ctx); err != nil {
			failed(w, d, send, err)
			return
		}
		if doc.text == "" {
			continue
		}
		if send == nil {
			send = newSender(w, p.turn.wire, d.sse(), d.contentType())
			defer send.close()
		}
		if !send.document(ctx, doc.text) {
			return
		}
	}
	send.end(ctx)
}

// documents is a turn in the order of sending.
type documents []document

// document is what is sent, and the step (a wait, an error) before it.
type document struct {
	before step
	text   string // "" sends nothing
}

// failed shows an error of the script: by its status, or in the stream if that has begun.
func failed(w http.ResponseWriter, d dialect, send *sender, err error) {
	var e *llm.Error
	if !errors.As(err, &e) {
		e = &llm.Error{Message: err.Error()}
	}
	if send != nil {
		send.write(send.framed(d.errorBody(0, e.Code, e.Message)))
		return
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(e.RetryAfter/time.Second)))
	}
	status := e.Status
	if status == 0 {
		status = http.StatusInternalServerError
	}
	answer(w, &reply{status: status, body: d.errorBody(status, e.Code, e.Message)})
}

// answer sends a reply as it is.
func answer(w http.ResponseWriter, r *reply) {
	w.Header().Set("Content-Type", "application/json")
	for i := 0; i+1 < len(r.headers); i += 2 {
		w.Header().Set(r.headers[i], r.headers[i+1])
	}
	w.WriteHeader(r.status)
	_, _ = io.WriteString(w, r.body) // a peer that is gone needs no answer
}

func (s *Server) refuse(w http.ResponseWriter, d dialect, status int, code string, err error) {
	answer(w, &reply{status: status, body: d.errorBody(status, code, err.Error())})
}

func (s *Server) record(r *http.Request, body []byte, req *llm.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recorded = append(s.recorded, Recorded{
		Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), Body: body, Request: req,
	})
}

func (s *Server) fail(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, fmt.Sprintf(format, args...))
}

func (s *Server) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active++
	s.maxActive = max(s.maxActive, s.active)
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active--
}

func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	s.record(r, nil, nil)
	s.fail("%s %s: there is no such path", r.Method, r.URL.Path)
	http.Error(w, "404 page not found", http.StatusNotFound)
}

// names are the models it lists.
func (s *Server) names() []string {
	if s.Models == nil {
		return []string{"scripted"}
	}
	return s.Models
}

// sendJSON sends an answer that is always encodable.
func sendJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	data, _ := jsonx.Marshal(v) // of our own types
	_, _ = w.Write(data)        // a peer that is gone needs no answer
}

// object is a JSON object that is sent.
type object map[string]any

// encode encodes what is sent; the values in it always can be.
func encode(v any) string {
	data, err := jsonx.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("llmtest: encoding a document: %v", err))
	}
	return string(data)
}
