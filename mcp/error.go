package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// Error codes of JSON-RPC and of the protocol. Codes of our own lie outside
// -32768..-32000.
const (
	CodeParse                   = -32700
	CodeInvalidRequest          = -32600
	CodeMethodNotFound          = -32601
	CodeInvalidParams           = -32602
	CodeInternal                = -32603
	CodeHeaderMismatch          = -32020 // 2026-07-28
	CodeMissingClientCapability = -32021 // 2026-07-28
	CodeUnsupportedVersion      = -32022 // 2026-07-28
	CodeResourceNotFound        = -32002 // legacy; accepted from anyone
	CodeURLElicitationRequired  = -32042 // 2025-11-25
	CodeUserRejected            = -1     // legacy, sampling
)

// Error is a JSON-RPC error object. Two errors are the same to [errors.Is]
// when their codes are equal, whatever the peer's wording.
type Error struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitzero"` // nil when absent; null is kept
}

// Sentinels for [errors.Is].
var (
	ErrParse                   = &Error{Code: CodeParse, Message: "parse error"}
	ErrInvalidRequest          = &Error{Code: CodeInvalidRequest, Message: "invalid request"}
	ErrMethodNotFound          = &Error{Code: CodeMethodNotFound, Message: "method not found"}
	ErrInvalidParams           = &Error{Code: CodeInvalidParams, Message: "invalid params"}
	ErrInternal                = &Error{Code: CodeInternal, Message: "internal error"}
	ErrHeaderMismatch          = &Error{Code: CodeHeaderMismatch, Message: "header mismatch"}
	ErrMissingClientCapability = &Error{Code: CodeMissingClientCapability, Message: "missing client capability"}
	ErrUnsupportedVersion      = &Error{Code: CodeUnsupportedVersion, Message: "unsupported protocol version"}
	ErrResourceNotFound        = &Error{Code: CodeResourceNotFound, Message: "resource not found"}
	ErrURLElicitationRequired  = &Error{Code: CodeURLElicitationRequired, Message: "URL elicitation required"}
	ErrUserRejected            = &Error{Code: CodeUserRejected, Message: "user rejected sampling request"}
)

// Error returns the message with its code.
func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// Is reports whether target is an [*Error] with the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// UnmarshalJSON reads an error object; an integer code and a message must be there.
func (e *Error) UnmarshalJSON(raw []byte) error {
	if err := needMembers(raw, "error", "code", "message"); err != nil {
		return err
	}
	type plain Error
	return jsonx.Unmarshal(raw, (*plain)(e))
}

// Errorf returns an Error without data.
func Errorf(code int64, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithData returns a copy of e that carries data. Data that cannot be encoded is left out.
func (e *Error) WithData(data any) *Error {
	c := *e
	if raw, err := jsonx.Marshal(data); err == nil {
		c.Data = raw
	}
	return &c
}

// ErrorOf is the one place where a Go error becomes a wire error. An [*Error]
// found in err's chain is kept as it is. Everything else becomes -32603 with a
// message that gives nothing away: the cause belongs in the log. It
// returns nil for nil.
func ErrorOf(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return Errorf(CodeInternal, "the request took too long")
	case errors.Is(err, context.Canceled):
		return Errorf(CodeInternal, "the request was cancelled")
	}
	return Errorf(CodeInternal, "internal error")
}

// UnsupportedVersionData is the data of -32022, and of the -32602 with which
// some legacy servers refuse to initialize.
type UnsupportedVersionData struct {
	Supported []Version `json:"supported"`
	Requested Version   `json:"requested"`
}

// UnsupportedVersion returns the error -32022.
func UnsupportedVersion(requested Version, supported []Version) *Error {
	return ErrUnsupportedVersion.WithData(UnsupportedVersionData{Supported: supported, Requested: requested})
}

// UnsupportedVersion decodes the versions a peer supports instead, from -32022
// or from a -32602 that carries such data.
func (e *Error) UnsupportedVersion() (UnsupportedVersionData, bool) {
	var d UnsupportedVersionData
	if e.Code != CodeUnsupportedVersion && e.Code != CodeInvalidParams {
		return d, false
	}
	if len(e.Data) == 0 || jsonx.Unmarshal(e.Data, &d) != nil || d.Supported == nil {
		return UnsupportedVersionData{}, false
	}
	return d, true
}

type missingCapabilityData struct {
	RequiredCapabilities *ClientCapabilities `json:"requiredCapabilities"`
}

// MissingCapability returns the error -32021 that names just what is missing.
func MissingCapability(caps *ClientCapabilities) *Error {
	return ErrMissingClientCapability.WithData(missingCapabilityData{caps})
}

// MissingCapability decodes the capabilities that -32021 asks for.
func (e *Error) MissingCapability() (*ClientCapabilities, bool) {
	var d missingCapabilityData
	if e.Code != CodeMissingClientCapability || len(e.Data) == 0 || jsonx.Unmarshal(e.Data, &d) != nil {
		return nil, false
	}
	return d.RequiredCapabilities, d.RequiredCapabilities != nil
}

type urlElicitationData struct {
	Elicitations []*ElicitParams `json:"elicitations"`
}

// URLElicitationRequired returns the error -32042 of 2025-11-25.
// There must be at least one elicitation; the mode is filled in.
func URLElicitationRequired(elicitations ...*ElicitParams) *Error {
	d := urlElicitationData{Elicitations: make([]*ElicitParams, len(elicitations))}
	for i, p := range elicitations {
		c := *p
		c.Mode = ElicitURL
		d.Elicitations[i] = &c
	}
	return ErrURLElicitationRequired.WithData(d)
}

// URLElicitations decodes the elicitations of -32042. It is false unless there
// is at least one and each is a complete URL elicitation with an id.
func (e *Error) URLElicitations() ([]*ElicitParams, bool) {
	var d urlElicitationData
	if e.Code != CodeURLElicitationRequired || len(e.Data) == 0 || jsonx.Unmarshal(e.Data, &d) != nil {
		return nil, false
	}
	for _, p := range d.Elicitations {
		if p == nil || p.Mode != ElicitURL || p.ElicitationID == "" || p.Validate() != nil {
			return nil, false
		}
	}
	return d.Elicitations, len(d.Elicitations) > 0
}

type resourceNotFoundData struct {
	URI string `json:"uri"`
}

// ResourceNotFound returns the error for a missing resource: -32002 in legacy
// revisions and -32602 in 2026-07-28.
func ResourceNotFound(v Version, uri string) *Error {
	code := int64(CodeResourceNotFound)
	if v.Era() == EraModern {
		code = CodeInvalidParams
	}
	return Errorf(code, "resource not found").WithData(resourceNotFoundData{uri})
}

// ResourceNotFound reports whether e says that a resource is missing, in the
// way of any revision, and which.
func (e *Error) ResourceNotFound() (uri string, ok bool) {
	var d resourceNotFoundData
	if len(e.Data) > 0 && jsonx.Unmarshal(e.Data, &d) != nil {
		d.URI = ""
	}
	switch e.Code {
	case CodeResourceNotFound:
		return d.URI, true
	case CodeInvalidParams:
		return d.URI, d.URI != ""
	}
	return "", false
}

// For returns e as revision v may carry it. 2026-07-28 never sees -32002 or
// -32042: a missing resource becomes -32602, and a URL
// elicitation that should have been an input request becomes -32603, as does a
// code that only the specification may define.
func (e *Error) For(v Version) *Error {
	if e == nil || v.Era() != EraModern {
		return e
	}
	c := *e
	switch e.Code {
	case CodeResourceNotFound:
		c.Code = CodeInvalidParams
	case CodeURLElicitationRequired:
		c.Code, c.Data = CodeInternal, nil
	case CodeHeaderMismatch, CodeMissingClientCapability, CodeUnsupportedVersion:
	default:
		if -32099 <= e.Code && e.Code <= -32020 {
			c.Code = CodeInternal
		}
	}
	return &c
}
