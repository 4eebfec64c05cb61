package jsonx

import (
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Appender appends JSON to Buf member by member, without reflection: what [Marshal] writes of a
// struct with the same members. Its methods put the commas.
type Appender struct {
	Buf []byte
	// Bad says that something has no JSON, such as text that is not UTF-8. What was appended is of
	// no use then, and [Marshal] has the error.
	Bad bool
}

// Open begins an object or an array with its bracket. It is an element of an array that is open.
func (a *Appender) Open(bracket byte) {
	a.separate()
	a.Buf = append(a.Buf, bracket)
}

// Close ends an object or an array.
func (a *Appender) Close(bracket byte) { a.Buf = append(a.Buf, bracket) }

// separate puts the comma between two elements or members.
func (a *Appender) separate() {
	if n := len(a.Buf); n > 0 {
		switch a.Buf[n-1] {
		case '{', '[', ':':
		default:
			a.Buf = append(a.Buf, ',')
		}
	}
}

// Name begins a member whose name needs no escape; its value is next.
func (a *Appender) Name(name string) {
	a.separate()
	a.Buf = append(a.Buf, '"')
	a.Buf = append(a.Buf, name...)
	a.Buf = append(a.Buf, '"', ':')
}

// Quote appends a string.
func (a *Appender) Quote(s string) {
	a.Bad = a.Bad || !utf8.ValidString(s)
	a.separate()
	a.Buf = AppendQuote(a.Buf, s)
}

// Text appends a member that is a string.
func (a *Appender) Text(name, s string) {
	a.Name(name)
	a.Quote(s)
}

// SomeText is Text, unless s is empty.
func (a *Appender) SomeText(name, s string) {
	if s != "" {
		a.Text(name, s)
	}
}

// SomeTexts appends a member that is an array of strings, unless it is empty.
func (a *Appender) SomeTexts(name string, list []string) {
	if len(list) == 0 {
		return
	}
	a.Name(name)
	a.Open('[')
	for _, s := range list {
		a.Quote(s)
	}
	a.Close(']')
}

// Int appends a member that is a number.
func (a *Appender) Int(name string, n int64) {
	a.Name(name)
	a.Buf = strconv.AppendInt(a.Buf, n, 10)
}

// SomeInt is Int, unless n is zero.
func (a *Appender) SomeInt(name string, n int64) {
	if n != 0 {
		a.Int(name, n)
	}
}

// Bool appends a member that is true or false.
func (a *Appender) Bool(name string, is bool) {
	a.Name(name)
	a.Buf = strconv.AppendBool(a.Buf, is)
}

// SomeBool is Bool, unless it is false.
func (a *Appender) SomeBool(name string, is bool) {
	if is {
		a.Bool(name, is)
	}
}

// Raw appends raw JSON, which it checks and writes in its shortest form; nil is null.
func (a *Appender) Raw(raw []byte) {
	a.separate()
	if raw == nil {
		raw = []byte("null")
	}
	out, err := jsontext.AppendFormat(a.Buf, raw)
	if err != nil {
		a.Bad = true
		return
	}
	a.Buf = out
}

// Value appends a member that is raw JSON; see [Appender.Raw].
func (a *Appender) Value(name string, raw []byte) {
	a.Name(name)
	a.Raw(raw)
}

// SomeValue is Value, unless raw is nil.
func (a *Appender) SomeValue(name string, raw []byte) {
	if raw != nil {
		a.Value(name, raw)
	}
}

// Encoded appends JSON as it is.
func (a *Appender) Encoded(raw []byte) {
	a.separate()
	a.Buf = append(a.Buf, raw...)
}

// Any appends a member by reflection, for what is rare.
func (a *Appender) Any(name string, v any) {
	raw, err := Marshal(v)
	a.Bad = a.Bad || err != nil
	a.Name(name)
	a.Encoded(raw)
}
