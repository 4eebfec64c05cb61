package openai

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/rest"
)

// habits are what a model of a server wants or refuses, as far as its server's address says so or a refusal has.
type habits struct {
	responses, chat bool      // it is there by this API only, or not by the other one
	empty           bool      // each message with calls has reasoning_content, empty if there was none
	placeholders    bool      // the first call of each message has a signature, or the word for none
	switched        bool      // a member "thinking" switches that on and off
	unthinking      bool      // with tools its effort must be none
	otherLimit      bool      // it knows the limit of its output by the other name
	tools           bool      // it takes no conversation with calls without tools
	alternates      bool      // it takes nothing of the user's behind a message of the user, or behind results
	shortIDs        bool      // it takes no ID of a call but nine letters and digits
	refused         uint8     // kinds of state that are not sent, as bits in the order of kinds
	omit            field     // what is not sent
	efforts         effortSet // that it takes; 0 where that is not known
}

// field is a set of optional members of a request, or one of them.
type field uint8

const (
	fieldTemperature field = 1 << iota
	fieldLimit
	fieldEffort
	fieldSwitch
	fieldOneCall
	fieldCacheKey
	fieldEncrypted
)

// fieldNames are the words by which a refusal names a field.
var fieldNames = []struct {
	field field
	names []string
}{
	{fieldTemperature, []string{"temperature"}},
	{fieldLimit, []string{"max_tokens", "max_completion_tokens", "max_output_tokens"}},
	{fieldSwitch, []string{"thinking"}},
	{fieldOneCall, []string{"parallel_tool_calls"}},
	{fieldCacheKey, []string{"prompt_cache_key"}},
	{fieldEncrypted, []string{"encrypted", "encrypted_content", "include"}},
}

// effortSet is a set of efforts, as bits in the order of [llm.Efforts].
type effortSet uint8

func setOf(list ...llm.Effort) (s effortSet) {
	for _, e := range list {
		s |= 1 << slices.Index(llm.Efforts, e)
	}
	return s
}

func (s effortSet) list() (list []llm.Effort) {
	for i, e := range llm.Efforts {
		if s&(1<<i) != 0 {
			list = append(list, e)
		}
	}
	return list
}

// knownHabits are those of servers that are known by their address.
func knownHabits(host string) habits {
	of := func(domain string) bool { return host == domain || strings.HasSuffix(host, "."+domain) }
	switch {
	case of("deepseek.com"): // https://api-docs.deepseek.com/guides/thinking_mode
		return habits{empty: true, switched: true, efforts: setOf(llm.EffortLow, llm.EffortHigh, llm.EffortMax)}
	case of("googleapis.com"): // https://ai.google.dev/gemini-api/docs/thought-signatures
		return habits{placeholders: true}
	case of("openrouter.ai"): // https://openrouter.ai/docs/guides/best-practices/reasoning-tokens
		return habits{efforts: setOf(llm.Efforts...)}
	}
	return habits{}
}

// maxLearned bounds the models of which a client remembers the habits.
const maxLearned = 256

// learned are the habits that requests of all goroutines have shown.
type learned struct {
	known habits // of every model of the server

	mu sync.Mutex
	of map[string]habits // by model, guarded by mu
}

func (l *learned) get(model string) habits {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, ok := l.of[model]; ok {
		return h
	}
	return l.known
}

// add takes the habits of a model in, which a request that was sent by others has shown, and reports whether that is worth
// another attempt: another goroutine may have learned the same meanwhile.
func (l *learned) add(model string, h, sent habits) bool {
	if h == sent {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.of) >= maxLearned {
		clear(l.of)
	}
	if l.of == nil {
		l.of = make(map[string]habits)
	}
	if now, ok := l.of[model]; !ok || now == sent {
		l.of[model] = h
	}
	return true
}

// attempt is how a request is sent.
type attempt struct {
	echo
	api     API // [APIChat] or [APIResponses]
	auto    bool
	sent    field
	effort  llm.Effort // "" for none, or for the option's own word
	efforts effortSet  // that the model takes, as far as is known
}

// The words in which servers refuse a member of a request, an effort, or a limit that is beyond the model's own.
var (
	unsupported = []string{
		"unsupported", "not support", "not currently support", "unrecognized", "unknown", "unexpected", "not allowed", "not permitted",
		"extra input", "extra field", "additional propert", "only the default", "may only be", "no longer", "deprecated",
	}
	wrongEffort = append([]string{"must be", "should be", "invalid", "supported values"}, unsupported...)
	tooLarge    = []string{"too large", "at most", "less than or equal", "maximum"}
)

// after returns the habits of a model whose server has refused the attempt: it lacks what the server wants, or has what it does not take.
func (a *attempt) after(err *llm.Error, req *llm.Request) habits {
	h, text := a.habits, strings.ToLower(err.Message)
	switch {
	case errors.Is(err, llm.ErrContextLength):
		if a.sent&fieldLimit != 0 && strings.Contains(text, "max_tokens") && strings.Contains(text, "too large") { // vLLM: not the prompt is, but both together
			h.omit |= fieldLimit
		}
		return h
	case a.api == APIResponses && a.auto && !h.responses && gone(err):
		h.chat = true
		return h
	}
	switch err.Status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusNotFound:
	default:
		return h
	}
	switch {
	case a.api == APIChat && elsewhere(text) && a.auto && !h.responses && !h.chat:
		h.responses = true
	case a.api == APIChat && elsewhere(text):
		h.unthinking = h.unthinking || len(req.Tools) > 0
	case err.Status == http.StatusNotFound && !strings.Contains(text, "item with id"):
	case has(text, "thought_signature", "thoughtsignature", "thought signature"):
		h.placeholders = h.placeholders || rest.HasCalls(req)
	case !h.tools && rest.RefusesHistory(err, req):
		h.tools = true
	case !h.alternates && has(text, "after role 'tool'", "after role 'user'", "roles must alternate"):
		h.alternates = true
	case !h.shortIDs && rest.HasCalls(req) && refusesIDs(text):
		h.shortIDs = true
	case strings.Contains(text, kindReasoningContent) && !h.empty && a.lacksReasoning(req):
		h.empty = true
	default:
		a.without(&h, text, req)
	}
	return h
}

// without learns from a refusal what is not to be sent again.
func (a *attempt) without(h *habits, text string, req *llm.Request) {
	if a.refusedEffort(h, text) {
		return
	}
	for i, kind := range kinds {
		named := names(text, kind)
		if kind == kindItem {
			named = has(text, "item with id", "encrypted content", "encrypted_content") && !has(text, "encrypted content is not supported")
		}
		if bit := uint8(1) << i; named && h.refused&bit == 0 && a.has(req, kind) {
			h.refused |= bit
			return
		}
	}
	for _, f := range fieldNames {
		if a.sent&f.field == 0 || !slices.ContainsFunc(f.names, func(name string) bool { return names(text, name) }) {
			continue
		}
		switch {
		case f.field == fieldLimit && has(text, tooLarge...):
			h.omit |= f.field
		case !has(text, unsupported...): // the value is wrong: the caller sees the error
		case f.field == fieldLimit && a.api == APIChat && !h.otherLimit:
			h.otherLimit = true
		default:
			h.omit |= f.field
		}
		return
	}
}

// refusedEffort learns which efforts the model takes, if the refusal is of that.
func (a *attempt) refusedEffort(h *habits, text string) bool {
	if a.sent&fieldEffort == 0 || !has(text, wrongEffort...) {
		return false
	}
	named := a.effort != "" && names(text, string(a.effort))
	if !named && !has(text, "reasoning_effort", "reasoning effort", "reasoning.effort", "reasoningeffort") {
		return false
	}
	var listed effortSet
	for _, e := range llm.Efforts {
		if names(text, string(e)) {
			listed |= setOf(e)
		}
	}
	if a.effort != "" {
		listed &^= setOf(a.effort)
	}
	switch {
	case listed != 0:
		h.efforts = listed
	case named && a.efforts&^setOf(a.effort) != 0:
		h.efforts = a.efforts &^ setOf(a.effort)
	default:
		h.omit |= fieldEffort
	}
	return true
}

// gone reports whether a server says that it does not have the Responses API, and not that it does not have the model.
func gone(err *llm.Error) bool {
	switch err.Status {
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	case http.StatusNotFound:
		return err.Code != "model_not_found" && !strings.Contains(strings.ToLower(err.Message), "item with id")
	}
	return false
}

// elsewhere reports whether a refusal points to the Responses API.
func elsewhere(text string) bool {
	return has(text, "v1/responses", "responses api", "responses endpoint")
}

// refusesIDs reports whether a refusal is of how the ID of a call looks: other services, and servers that drive a loop, have longer ones,
// or with other characters in them.
func refusesIDs(text string) bool {
	return has(text, "tool call id", "tool_call_id", "tool_calls", "call_id", "tool_use.id") && has(text, "length", "too long", "pattern", "alphanumeric")
}

func has(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// names reports whether a text has a word, and not as a part of a longer one.
func names(text, word string) bool {
	return slices.Contains(strings.FieldsFunc(text, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }), word)
}
