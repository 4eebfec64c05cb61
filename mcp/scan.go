package mcp

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// Kind tells what a message is.
type Kind uint8

// The kinds of messages.
const (
	KindInvalid Kind = iota
	KindRequest
	KindNotification
	KindResult
	KindError
)

// String returns the kind in a word.
func (k Kind) String() string {
	return [...]string{"invalid", "request", "notification", "result", "error"}[min(k, KindError)]
}

// Message is one scanned message. Every json.RawMessage in it is a part of the
// frame, not a copy: it lives as long as the frame does and must be cloned to
// outlive it. The other fields own their memory.
type Message struct {
	Kind   Kind
	ID     ID     // zero for notifications, and for errors without an id
	Method string // of requests and notifications

	Params json.RawMessage // an object; nil when absent
	Result json.RawMessage // an object; of KindResult
	Error  *Error          // of KindError

	// Parts of Params, nil when absent. They are of any JSON type.
	Name      json.RawMessage
	Arguments json.RawMessage
	URI       json.RawMessage
	TaskID    json.RawMessage
	Task      json.RawMessage // of 2025-11-25: what makes a request a task
	// InputResponses and RequestState are what makes a request a retry.
	InputResponses json.RawMessage
	RequestState   json.RawMessage
	// Meta is the _meta of Params or Result; nil when absent.
	Meta json.RawMessage

	// Progress is the progress token of Params; zero when absent or malformed.
	Progress ProgressToken
	// Modern holds when the _meta of Params names a protocol version at all,
	// which makes the request a modern one. Version is that name; ""
	// when it is not a string.
	Modern  bool
	Version Version

	// ResultType is that of Result; "" when absent, which means complete.
	ResultType string
}

// NameString returns Name as a string; false when absent or not a string.
func (m *Message) NameString() (string, bool) { return stringOf(m.Name) }

// URIString returns URI as a string; false when absent or not a string.
func (m *Message) URIString() (string, bool) { return stringOf(m.URI) }

// TaskIDString returns TaskID as a string; false when absent or not a string.
func (m *Message) TaskIDString() (string, bool) { return stringOf(m.TaskID) }

// DecodeParams decodes Params into v as [Unmarshal] does, and turns a failure
// into -32602. Absent params are read as {}.
func (m *Message) DecodeParams(v any) error {
	params := m.Params
	if params == nil {
		params = json.RawMessage("{}")
	}
	if err := Unmarshal(params, v); err != nil {
		return Errorf(CodeInvalidParams, "%s: %v", m.Method, err)
	}
	return nil
}

// objectKind says which members of an object are picked up.
type objectKind uint8

const (
	plainObject objectKind = iota
	envelopeObject
	paramsObject
	resultObject
	metaObject
	errorObject
	visitedObject // every member is handed to scanner.visit
)

// field is a member that is picked up on the way.
type field uint8

const (
	noField field = iota
	fieldVersion
	fieldID
	fieldMethod
	fieldParams
	fieldResult
	fieldError
	fieldName
	fieldArguments
	fieldURI
	fieldTaskID
	fieldTask
	fieldInputResponses
	fieldRequestState
	fieldMeta
	fieldProgress
	fieldProtocol
	fieldResultType
	fieldCode
	fieldMessage
	fieldData
	fieldCount
)

// found tells where in the frame the values of the fields are. Places cost the
// collector nothing, where slices would: each call writes and clears them.
type found struct {
	frame []byte
	at    [fieldCount]place
}

// place is where a value starts and ends; zero when absent.
type place struct{ start, end int }

// raw returns the value of a field; nil when absent.
func (f *found) raw(of field) []byte {
	at := f.at[of]
	if at.end == 0 {
		return nil
	}
	return f.frame[at.start:at.end]
}

// fieldOf says what a member is, and what kind of object its value would be.
func fieldOf(k objectKind, name []byte) (field, objectKind) {
	switch k {
	case envelopeObject:
		switch string(name) {
		case "jsonrpc":
			return fieldVersion, plainObject
		case "id":
			return fieldID, plainObject
		case "method":
			return fieldMethod, plainObject
		case "params":
			return fieldParams, paramsObject
		case "result":
			return fieldResult, resultObject
		case "error":
			return fieldError, errorObject
		}
	case paramsObject:
		switch string(name) {
		case "name":
			return fieldName, plainObject
		case "arguments":
			return fieldArguments, plainObject
		case "uri":
			return fieldURI, plainObject
		case "taskId":
			return fieldTaskID, plainObject
		case "task":
			return fieldTask, plainObject
		case "inputResponses":
			return fieldInputResponses, plainObject
		case "requestState":
			return fieldRequestState, plainObject
		case "_meta":
			return fieldMeta, metaObject
		}
	case resultObject:
		switch string(name) {
		case "resultType":
			return fieldResultType, plainObject
		case "_meta":
			return fieldMeta, metaObject
		}
	case metaObject:
		switch string(name) {
		case MetaProgressToken:
			return fieldProgress, plainObject
		case MetaProtocolVersion:
			return fieldProtocol, plainObject
		}
	case errorObject:
		switch string(name) {
		case "code":
			return fieldCode, plainObject
		case "message":
			return fieldMessage, plainObject
		case "data":
			return fieldData, plainObject
		}
	}
	return noField, plainObject
}

// Scan checks one frame in one pass and finds the parts of its message. The
// frame must hold exactly one message; a batch is for [ScanBatch].
//
// What is not strict JSON (syntax, UTF-8, lone surrogates, a name twice in an
// object, deeper than [MaxDepth], more than 100,000 objects or 200,000 members, bytes
// behind the value) is an [*Error] with code -32700; JSON that is not a message is one with -32600. Then
// m.ID is filled if it could be read, and m.Kind tells what the message tried
// to be, so that the caller knows whether to answer: only a request, or what
// has no kind at all, gets one.
//
// Scan takes time linear in the frame and may be used from any goroutine. It
// overwrites m.
func Scan(frame []byte, m *Message) error {
	*m = Message{}
	w := workspaces.Get().(*workspace)
	defer w.release()
	s := &w.scanner
	s.data, s.on = frame, &w.found
	s.on.frame = frame
	if !s.document(envelopeObject) {
		if s.on.at[fieldID].end < s.pos { // else it may be cut off: 1 of 12
			m.readID(s.on)
		}
		if method, ok := unquoted(s.on.raw(fieldMethod)); ok {
			m.Method = intern(method) // it was meant as a request, and is no answer
		}
		return Errorf(CodeParse, "invalid JSON at byte %d: %s", s.pos, s.fault)
	}
	idOK := m.readID(s.on)
	m.Kind = kindOf(s.on)
	if fault := m.fill(s.on, idOK); fault != "" {
		return Errorf(CodeInvalidRequest, "invalid message: %s", fault)
	}
	return nil
}

// workspace is what a scan needs beside the message; it is used again.
type workspace struct {
	scanner scanner
	found   found
	names   [24]nameRef // enough for the open objects of an ordinary message
}

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

// release gives w back, without a reference to the frame.
func (w *workspace) release() {
	if s := &w.scanner; len(s.names) > 0 || cap(s.names) != len(w.names) { // else closeNames has cleared them
		clear(w.names[:])
	}
	w.found = found{}
	w.scanner = scanner{names: w.names[:0]}
	workspaces.Put(w)
}

// readID reports whether the id is absent, or well-formed and now in m.ID.
func (m *Message) readID(on *found) bool {
	if on.raw(fieldID) == nil {
		return true
	}
	id, err := idOf(on.raw(fieldID))
	m.ID = id
	return err == nil
}

func kindOf(on *found) Kind {
	switch {
	case on.raw(fieldMethod) != nil && on.raw(fieldID) != nil:
		return KindRequest
	case on.raw(fieldMethod) != nil:
		return KindNotification
	case on.raw(fieldError) != nil:
		return KindError
	case on.raw(fieldResult) != nil:
		return KindResult
	}
	return KindInvalid
}

// fill sets m from what was found and returns what is wrong with it.
func (m *Message) fill(on *found, idOK bool) string {
	if string(on.raw(fieldVersion)) != `"2.0"` {
		return "jsonrpc is not \"2.0\""
	}
	switch m.Kind {
	case KindRequest, KindNotification:
		return m.fillRequest(on, idOK)
	case KindError:
		if on.raw(fieldResult) != nil {
			return "both result and error"
		}
		// An error whose id could not be read has none, or null (BASE-08).
		if !idOK && string(on.raw(fieldID)) != "null" {
			return errBadID.Error()
		}
		return m.fillError(on)
	case KindResult:
		return m.fillResult(on, idOK)
	}
	return "neither method, result nor error"
}

func (m *Message) fillRequest(on *found, idOK bool) string {
	if on.raw(fieldResult) != nil || on.raw(fieldError) != nil {
		return "both a method and a result or error"
	}
	method, ok := unquoted(on.raw(fieldMethod))
	if !ok {
		return "method is not a string"
	}
	m.Method = intern(method)
	if !idOK {
		return errBadID.Error()
	}
	if on.raw(fieldParams) != nil && on.raw(fieldParams)[0] != '{' {
		return "params is not an object" // BASE-03
	}
	m.Params, m.Name, m.Arguments = on.raw(fieldParams), on.raw(fieldName), on.raw(fieldArguments)
	m.URI, m.TaskID, m.Task = on.raw(fieldURI), on.raw(fieldTaskID), on.raw(fieldTask)
	m.InputResponses, m.RequestState = on.raw(fieldInputResponses), on.raw(fieldRequestState)
	m.Meta = on.raw(fieldMeta)
	if token := on.raw(fieldProgress); token != nil {
		m.Progress, _ = idOf(token) // malformed: as absent, nothing is promised to it
	}
	if on.raw(fieldProtocol) != nil {
		m.Modern = true
		if text, ok := unquoted(on.raw(fieldProtocol)); ok {
			m.Version = internVersion(text)
		}
	}
	return ""
}

func (m *Message) fillResult(on *found, idOK bool) string {
	switch {
	case on.raw(fieldID) == nil:
		return "a result without an id"
	case !idOK:
		return errBadID.Error()
	case on.raw(fieldResult)[0] != '{':
		return "result is not an object" // BASE-06
	}
	m.Result, m.Meta = on.raw(fieldResult), on.raw(fieldMeta)
	if raw := on.raw(fieldResultType); raw != nil {
		text, ok := unquoted(raw)
		if !ok || len(text) == 0 {
			return "resultType is not a name" // BASE-12
		}
		m.ResultType = internResultType(text)
	}
	return ""
}

// fillError decodes the error object (BASE-07). It copies the data: errors
// outlive their frame.
func (m *Message) fillError(on *found) string {
	if on.raw(fieldError)[0] != '{' {
		return "error is not an object"
	}
	code, ok := intOf(on.raw(fieldCode))
	if !ok {
		return "error code is not an integer"
	}
	message, ok := stringOf(on.raw(fieldMessage))
	if !ok {
		return "error message is not a string"
	}
	m.Error = &Error{Code: code, Message: message, Data: bytes.Clone(on.raw(fieldData))}
	return ""
}

// unquoted returns the text of a valid JSON value if it is a string, without a
// copy where it has no escapes.
func unquoted(raw []byte) ([]byte, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], true
	}
	text, err := jsonx.AppendUnquote(nil, raw)
	return text, err == nil
}

func stringOf(raw []byte) (string, bool) {
	text, ok := unquoted(raw)
	return string(text), ok
}

func intOf(raw []byte) (int64, bool) {
	if len(raw) == 0 {
		return 0, false
	}
	id, err := idOf(raw)
	if err != nil {
		return 0, false
	}
	return id.Int64()
}

func internVersion(text []byte) Version {
	for _, v := range versions {
		if string(v) == string(text) {
			return v
		}
	}
	return Version(text)
}

// Values of resultType.
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
	ResultTask          = "task" // Tasks extension
)

func internResultType(text []byte) string {
	switch string(text) {
	case ResultComplete:
		return ResultComplete
	case ResultInputRequired:
		return ResultInputRequired
	case ResultTask:
		return ResultTask
	}
	return string(text)
}
