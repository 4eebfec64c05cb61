package tinygguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// alignment of tensors in the file; the format's default.
const alignment = 32

// The types of values in GGUF that are used here.
const (
	typeUint32  = uint32(4)
	typeInt32   = uint32(5)
	typeFloat32 = uint32(6)
	typeBool    = uint32(7)
	typeString  = uint32(8)
	typeArray   = uint32(9)
)

// tensor is a block of float32; the first size is that of a row.
type tensor struct {
	name  string
	sizes []int
	data  []float32
}

type setting struct {
	key   string
	value any // uint32, float32, bool, string, []int32 or []string
}

// file is a GGUF file of version 3: settings, a directory of tensors, the tensors.
type file struct {
	settings []setting
	tensors  []tensor
}

func (f *file) set(key string, value any) { f.settings = append(f.settings, setting{key, value}) }

// write writes the file.
func (f *file) write(out io.Writer) error {
	var e encoder
	e.put([]byte("GGUF"), uint32(3), uint64(len(f.tensors)), uint64(len(f.settings)))
	for _, s := range f.settings {
		e.text(s.key)
		e.value(s.value)
	}
	offset := 0
	for _, t := range f.tensors {
		e.text(t.name)
		e.put(uint32(len(t.sizes)))
		for _, n := range t.sizes {
			e.put(uint64(n))
		}
		e.put(uint32(0), uint64(offset)) // float32
		offset += aligned(4 * len(t.data))
	}
	e.pad()
	for _, t := range f.tensors {
		e.put(t.data)
		e.pad()
	}
	if e.err != nil {
		return fmt.Errorf("encoding a model: %w", e.err)
	}
	_, err := out.Write(e.buf.Bytes())
	return err
}

func aligned(n int) int { return (n + alignment - 1) / alignment * alignment }

// encoder writes little-endian and keeps the first error.
type encoder struct {
	buf bytes.Buffer
	err error
}

func (e *encoder) put(values ...any) {
	for _, v := range values {
		if err := binary.Write(&e.buf, binary.LittleEndian, v); err != nil && e.err == nil {
			e.err = err
		}
	}
}

func (e *encoder) text(s string) { e.put(uint64(len(s)), []byte(s)) }

func (e *encoder) pad() { e.put(make([]byte, aligned(e.buf.Len())-e.buf.Len())) }

func (e *encoder) value(v any) {
	switch v := v.(type) {
	case uint32:
		e.put(typeUint32, v)
	case float32:
		e.put(typeFloat32, v)
	case bool:
		e.put(typeBool, v)
	case string:
		e.put(typeString)
		e.text(v)
	case []int32:
		e.put(typeArray, typeInt32, uint64(len(v)), v)
	case []string:
		e.put(typeArray, typeString, uint64(len(v)))
		for _, s := range v {
			e.text(s)
		}
	default:
		e.err = fmt.Errorf("a setting of type %T", v)
	}
}
