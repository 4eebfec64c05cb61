package jsonx

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Decoder reads one JSON value after the other, member by member, each byte once. It holds
// them to the rules of [Unmarshal]. Its zero value is for [Decoder.Reset]; it is for one
// goroutine. As with Unmarshal, null is the zero of each type.
type Decoder struct {
	dec jsontext.Decoder
	src bytes.Buffer
}

// Reset begins with data, which must not change while it is read.
func (d *Decoder) Reset(data []byte) {
	d.src = *bytes.NewBuffer(data)
	d.dec.Reset(&d.src)
}

// End is an error if anything but blanks follows the value.
func (d *Decoder) End() error {
	if rest := bytes.TrimLeft(d.dec.UnreadBuffer(), " \t\r\n"); len(rest) > 0 {
		return fmt.Errorf("%q follows the value", rest[:1])
	}
	return nil
}

// Kind is that of the next value, by its first byte: 0 for numbers, t and f for booleans.
func (d *Decoder) Kind() jsontext.Kind { return d.dec.PeekKind() }

// Raw returns the next value in its own text, valid until the next call.
func (d *Decoder) Raw() (Value, error) { return d.dec.ReadValue() }

// Skip passes the next value over.
func (d *Decoder) Skip() error { return d.dec.SkipValue() }

// Object calls member with the name of each member of an object; it reads the value. The
// name is valid until it does.
func (d *Decoder) Object(member func(name []byte) error) error {
	return d.each('{', "an object", func() error {
		name, err := d.dec.ReadValue()
		if err != nil {
			return err
		}
		if bytes.IndexByte(name, '\\') < 0 {
			return member(name[1 : len(name)-1])
		}
		plain, err := AppendUnquote(nil, name)
		if err != nil {
			return err
		}
		return member(plain)
	})
}

// Array calls element before each element of an array; it reads it.
func (d *Decoder) Array(element func() error) error { return d.each('[', "an array", element) }

func (d *Decoder) each(open jsontext.Kind, what string, one func() error) error {
	switch kind := d.dec.PeekKind(); kind {
	case 'n':
		return d.dec.SkipValue()
	case open:
	default:
		return d.wrong(what)
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return err
	}
	for {
		switch kind := d.dec.PeekKind(); kind {
		case '}', ']':
			_, err := d.dec.ReadToken()
			return err
		case 0: // a fault: reading tells which
			_, err := d.dec.ReadToken()
			return cmp.Or(err, io.ErrUnexpectedEOF)
		}
		if err := one(); err != nil {
			return err
		}
	}
}

// wrong reads the next value, which should be something else, and says so.
func (d *Decoder) wrong(want string) error {
	v, err := d.dec.ReadValue()
	if err != nil {
		return err
	}
	return fmt.Errorf("a %v within %s, where %s is expected", v.Kind(), d.dec.StackPointer(), want)
}

// String returns the next value, which is a string. Where it is last, it returns last and
// allocates nothing.
func (d *Decoder) String(last string) (string, error) {
	switch d.dec.PeekKind() {
	case '"':
	case 'n':
		return "", d.dec.SkipValue()
	default:
		return "", d.wrong("a string")
	}
	v, err := d.dec.ReadValue()
	if err != nil {
		return "", err
	}
	text := v[1 : len(v)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		if text, err = AppendUnquote(nil, v); err != nil {
			return "", err
		}
	}
	if string(text) == last {
		return last, nil
	}
	return string(text), nil
}

// Int returns the next value, which is a whole number written as one.
func (d *Decoder) Int() (int, error) {
	switch d.dec.PeekKind() {
	case '0':
	case 'n':
		return 0, d.dec.SkipValue()
	default:
		return 0, d.wrong("a number")
	}
	v, err := d.dec.ReadValue()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(v))
}
