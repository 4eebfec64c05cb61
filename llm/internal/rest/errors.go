package rest

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
)

// What a server says of an error is bounded: so much of a body is read, and so much
// of its text is kept.
const (
	maxErrorBody = 64 << 10
	maxMessage   = 1 << 10
	maxCode      = 64
)

// minSecret is the length from which a key is one.
const minSecret = 8

// Origin is who an error is about, and what must not appear in it.
type Origin struct {
	Provider, Model string
	Secrets         []string // see [Secrets]
}

// New returns an error of the origin around a sentinel of llm.
func (o Origin) New(sentinel error, format string, args ...any) *llm.Error {
	return &llm.Error{
		Provider: o.Provider, Model: o.Model, Err: sentinel,
		Message: o.clean(fmt.Sprintf(format, args...), maxMessage),
	}
}

// Retryable returns an error as [Origin.New] does, marked as worth another try.
func (o Origin) Retryable(sentinel error, format string, args ...any) *llm.Error {
	e := o.New(sentinel, format, args...)
	e.Retryable = true
	return e
}

// Wrap returns err, which arose before anything was sent, as an error of the origin.
func (o Origin) Wrap(err error) *llm.Error {
	return &llm.Error{Provider: o.Provider, Model: o.Model, Err: err}
}

// clean bounds a text from a server, takes the key out, and leaves nothing that a
// terminal would obey.
func (o Origin) clean(s string, limit int) string {
	s = o.hide(clip.Valid(s))
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	return clip.Text(strings.TrimSpace(o.hide(s)), limit) // hidden again: what was left out may have stood inside the key
}

// hide takes the secrets out.
func (o Origin) hide(s string) string {
	for _, secret := range o.Secrets {
		s = strings.ReplaceAll(s, secret, "[key]")
	}
	return s
}

// maxWord bounds a word of a server, in bytes.
const maxWord = 128

// Word bounds a word of a server that others show, such as the name of its model or why a
// turn has ended, and leaves nothing in it that a terminal would obey.
func Word(s string) string { return Origin{}.clean(s, maxWord) }

// shown is an error with a text that may be shown.
type shown struct {
	err  error
	text string
}

func (e *shown) Error() string { return e.text }

// Unwrap returns the error as it was.
func (e *shown) Unwrap() error { return e.err }

// unreachable returns the error for a request that got no answer.
func (o Origin) unreachable(err error) *llm.Error {
	// The URL in a url.Error may hold credentials: its cause says enough.
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	var cert *tls.CertificateVerificationError
	return &llm.Error{
		Provider: o.Provider, Model: o.Model,
		Retryable: !errors.As(err, &cert), // a bad certificate stays bad
		// Package http quotes what a server has said, however long.
		Err: fmt.Errorf("%w: %w", llm.ErrUnreachable, &shown{err, o.clean(err.Error(), maxMessage)}),
	}
}

// Status reads an answer that is not 2xx, closes it, and returns its error.
func (o Origin) Status(resp *http.Response, body io.Reader, now time.Time) *llm.Error {
	data, _ := io.ReadAll(io.LimitReader(body, maxErrorBody)) // whatever came is shown
	e := o.Decode(data)
	if e == nil {
		e = o.New(nil, "%s", firstLine(data))
	}
	if e.Message == "" {
		e.Message = http.StatusText(resp.StatusCode)
	}
	e.Status = resp.StatusCode
	e.RetryAfter = cmp.Or(RetryAfter(resp.Header, now), e.RetryAfter)
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		// The body and the key are meant for this server only (ROB-6).
		e.Message = "redirects are not followed"
	}
	o.classify(e)
	return e
}

// Decode reads an error object in any of the spellings seen in the wild, or returns
// nil if data is none: {"error":{…}}, {"error":"text"}, {"detail":…}, {"message":"…"}
// beside {"object":"error"}; and Google's, which is the first entry of a list.
func (o Origin) Decode(data []byte) *llm.Error {
	data = bytes.TrimSpace(bytes.TrimPrefix(data, bom))
	if bytes.HasPrefix(data, []byte("[")) {
		var list Few[jsonx.Value]
		if jsonx.Unmarshal(data, &list) != nil || len(list) == 0 || list[0].Kind() != '{' {
			return nil
		}
		data = list[0]
	}
	var body struct {
		Error   jsonx.Value `json:"error"`
		Detail  jsonx.Value `json:"detail"`
		Object  jsonx.Value `json:"object"`
		Message jsonx.Value `json:"message"`
		Code    jsonx.Value `json:"code"`
		Type    jsonx.Value `json:"type"`
	}
	if jsonx.Unmarshal(data, &body) != nil {
		return nil
	}
	switch {
	case present(body.Error):
		var obj struct {
			Message jsonx.Value `json:"message"`
			Code    jsonx.Value `json:"code"`
			Type    jsonx.Value `json:"type"`
			Status  jsonx.Value `json:"status"` // Google's
			Details jsonx.Value `json:"details"`
		}
		if body.Error.Kind() == '{' && jsonx.Unmarshal(body.Error, &obj) == nil {
			kind := obj.Type
			if !present(kind) {
				kind = obj.Status
			}
			e := o.decoded(obj.Message, obj.Code, kind, body.Error)
			if e.RetryAfter = retryInfo(obj.Details); e.RetryAfter > 0 {
				o.classify(e)
			}
			return e
		}
		return o.decoded(body.Error, body.Code, body.Type, body.Error)
	case present(body.Detail):
		return o.decoded(body.Detail, body.Code, body.Type, body.Detail)
	case plain(body.Object) == "error" || plain(body.Type) == "error":
		return o.decoded(body.Message, body.Code, body.Type, data)
	}
	return nil
}

// decoded builds an error of its parts; whole stands in for a message that is not there.
func (o Origin) decoded(message, code, kind jsonx.Value, whole []byte) *llm.Error {
	text := plain(message)
	if text == "" {
		text = string(whole)
	}
	name := plain(code)
	if _, err := strconv.Atoi(name); err == nil || name == "" {
		// A number repeats the status: the type says more.
		if t := plain(kind); t != "" {
			name = t
		}
	}
	e := o.New(nil, "%s", text)
	e.Code = o.clean(name, maxCode)
	o.classify(e)
	return e
}

// retryInfo is the wait that a google.rpc.RetryInfo asks for, in the details of an error; zero for none.
func retryInfo(details jsonx.Value) time.Duration {
	var list Few[jsonx.Value]
	if details.Kind() != '[' || jsonx.Unmarshal(details, &list) != nil {
		return 0
	}
	for _, entry := range list {
		var info struct {
			Type  string `json:"@type"`
			Delay string `json:"retryDelay"`
		}
		if jsonx.Unmarshal(entry, &info) != nil || !strings.HasSuffix(info.Type, "google.rpc.RetryInfo") {
			continue
		}
		if d, err := time.ParseDuration(info.Delay); err == nil {
			return bounded(float64(d))
		}
	}
	return 0
}

// present reports whether a member was there and is not null, false or empty.
func present(v jsonx.Value) bool {
	switch string(v) {
	case "", "null", "false", `""`, "{}", "[]":
		return false
	}
	return true
}

// plain returns a string's text, or the JSON of anything else but null.
func plain(v jsonx.Value) string {
	if len(v) == 0 || v.Kind() == 'n' {
		return ""
	}
	if v.Kind() == '"' {
		text, err := jsonx.AppendUnquote(nil, v)
		if err != nil {
			return ""
		}
		return string(text)
	}
	return string(v)
}

// firstLine returns the first line of a body that has text, without HTML tags.
func firstLine(data []byte) string {
	for line := range strings.Lines(string(data)) {
		if text := strings.TrimSpace(stripTags(line)); text != "" {
			return text
		}
	}
	return ""
}

func stripTags(s string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "<")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		if _, s, ok = strings.Cut(rest, ">"); !ok {
			return b.String()
		}
	}
}

// classify sets the sentinel and whether a retry may help, by status, code and text.
// It runs again when the status of a decoded body is known.
func (o Origin) classify(e *llm.Error) {
	e.Err, e.Retryable = kindOf(e)
}

// overlong are the words in which servers say that a conversation is too long for the model.
var overlong = []string{
	"context_length_exceeded", "exceed_context_size", "maximum context length", "exceeds the context length", "exceeds the context window",
	"exceeds the available context size",    // llama.cpp, through a proxy that drops the code
	"greater than the context length",       // LM Studio
	"exceeds the maximum number of tokens",  // Gemini
	"prompt is too long",                    // Anthropic
	"maximum prompt length",                 // xAI
	"longer than the maximum model length",  // vLLM
	"input is too long for requested model", // Bedrock
}

func kindOf(e *llm.Error) (sentinel error, retryable bool) {
	text := strings.ToLower(e.Code + " " + e.Message)
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(text, w) {
				return true
			}
		}
		return false
	}
	switch {
	case e.RetryAfter > 0 && has("resource_exhausted"): // Google calls a limit of a minute a quota too
		return llm.ErrRateLimit, true
	case has("insufficient_quota", "billing_hard_limit", "exceeded your current quota") || e.Status == http.StatusPaymentRequired:
		return llm.ErrQuota, false
	case has(overlong...):
		return llm.ErrContextLength, false
	case e.Status == http.StatusInternalServerError && has("invalid option", "option \"", "invalid format", "schema", "grammar", "template"):
		return llm.ErrInvalidRequest, false // Ollama and llama.cpp say 500 for what is wrong with a request
	case has("does not support", "is not supported", "not currently supported", "content_policy", "content_filter"):
		return llm.ErrUnsupported, false
	case has("invalid_api_key", "authentication_error", "api key not valid"):
		return llm.ErrAuth, false
	case has("model_not_found"):
		return llm.ErrNotFound, false
	}
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return llm.ErrAuth, false
	case http.StatusNotFound:
		return llm.ErrNotFound, false
	case http.StatusTooManyRequests:
		return llm.ErrRateLimit, true
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout, 529: // 529: overloaded, at several providers
		return nil, true
	case 0: // inside a stream: only words tell
		if has("rate_limit", "rate limit", "resource_exhausted") {
			return llm.ErrRateLimit, true
		}
		return nil, !has("invalid_request", "invalid_argument")
	}
	if e.Status >= 400 && e.Status < 500 {
		return llm.ErrInvalidRequest, false
	}
	if e.Status < 400 {
		return llm.ErrBadResponse, false
	}
	return nil, false
}

// RetryAfter returns the wait that a server asks for: retry-after-ms, or Retry-After in
// seconds (fractions too, as some servers send them) or as a date. Zero means none.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return bounded(ms * float64(time.Millisecond))
	}
	value := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		return bounded(s * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// bounded turns nanoseconds from a server into a duration: no number there is taken
// at its word beyond a day.
func bounded(ns float64) time.Duration {
	const day = float64(24 * time.Hour)
	if !(ns > 0) { // NaN too
		return 0
	}
	return time.Duration(min(ns, day))
}
