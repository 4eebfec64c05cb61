// Package toolresult bounds the results of tools, so that a model and a journal can take
// them. What it leaves can be written as JSON and says where something is missing.
package toolresult

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// maxMedia bounds the images and sounds of one result, in bytes.
const maxMedia = 5 << 20

// maxBlocks bounds the blocks of one result that the model sees.
const maxBlocks = 256

// Writable returns a result that can be written as JSON: invalid UTF-8 in it, such as a
// file's bytes, is replaced. A result that stays unwritable is an error.
func Writable(r *mcp.CallToolResult) (*mcp.CallToolResult, error) {
	if r == nil {
		return nil, nil
	}
	if plain(r) {
		return r, nil
	}
	if _, err := jsonx.Marshal(r); err == nil {
		return r, nil
	}
	mended := *r
	mended.Content = make(mcp.Contents, len(r.Content))
	for i, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok && t != nil {
			fixed := *t
			fixed.Text = clip.Valid(t.Text)
			c = &fixed
		}
		mended.Content[i] = c
	}
	if _, err := jsonx.Marshal(&mended); err != nil {
		return nil, fmt.Errorf("the tool's result cannot be written as JSON: %w", err)
	}
	return &mended, nil
}

// plain reports whether r can surely be written: the results of most functions can, and need not be
// encoded for trial.
func plain(r *mcp.CallToolResult) bool {
	if len(r.Meta) > 0 || len(r.Extra) > 0 || !utf8.ValidString(r.ResultType) || r.StructuredContent != nil && !jsonx.Valid(r.StructuredContent) {
		return false
	}
	for _, c := range r.Content {
		if !plainBlock(c) {
			return false
		}
	}
	return true
}

// plainBlock is plain for a block. Of one with annotations, or with members of its own, it is not sure.
func plainBlock(c mcp.Content) bool {
	switch c := c.(type) {
	case *mcp.TextContent:
		return c != nil && c.Annotations == nil && len(c.Meta) == 0 && len(c.Extra) == 0 && utf8.ValidString(c.Text)
	case *mcp.ImageContent:
		return c != nil && c.Annotations == nil && len(c.Meta) == 0 && len(c.Extra) == 0 && utf8.ValidString(c.MIMEType)
	case *mcp.AudioContent:
		return c != nil && c.Annotations == nil && len(c.Meta) == 0 && len(c.Extra) == 0 && utf8.ValidString(c.MIMEType)
	}
	return false
}

// Clip returns what a model sees of a result with limit bytes of text, as a result that
// can be written as JSON.
func Clip(r *mcp.CallToolResult, limit int) (*mcp.CallToolResult, error) {
	r, err := Writable(r)
	if r == nil || err != nil {
		return r, err
	}
	c := ForModel("", r, limit)
	return &mcp.CallToolResult{Content: c.Content, StructuredContent: c.StructuredContent, IsError: c.IsError}, nil
}

// OfError is what the model reads of a Go error. The text of a panic is for the log.
func OfError(err error) *mcp.CallToolResult {
	if p, ok := errors.AsType[*actors.PanicError](err); ok && p != nil {
		return mcp.ErrorResult("the tool failed: internal error")
	}
	return mcp.ErrorResult("%s", clip.Short(err.Error()))
}

// ForModel returns what the model sees of a result: at most limit bytes of text, whole
// media within a bound of their own, and a note on what it does not see. It never fetches
// what a link points to (SECA-42).
func ForModel(id string, r *mcp.CallToolResult, limit int) *mcp.ToolResultContent {
	made := &struct { // most results have one block: it is in the same piece of memory
		mcp.ToolResultContent
		first [1]mcp.Content
	}{ToolResultContent: mcp.ToolResultContent{ToolUseID: id, IsError: r.IsError}}
	out := &made.ToolResultContent
	out.Content = made.first[:0]
	content := r.Content
	if len(content) == 0 && len(r.StructuredContent) > 0 {
		if len(r.StructuredContent) <= limit {
			out.StructuredContent = r.StructuredContent
			return out
		}
		content = mcp.Contents{mcp.Text(string(r.StructuredContent))}
	}
	left, media := limit, maxMedia
	missing, missed := 0, 0 // blocks and bytes without even a note
	for _, c := range content {
		if _, isText := c.(*mcp.TextContent); isText && left <= 0 && len(out.Content) > 0 || len(out.Content) == maxBlocks {
			missing, missed = missing+1, missed+Size(c)
			continue
		}
		switch size := Size(c); c := c.(type) {
		case *mcp.TextContent:
			out.Content = append(out.Content, textBlock(c, &left))
		case *mcp.ImageContent, *mcp.AudioContent:
			out.Content = append(out.Content, whole(c, size, &media))
		default:
			out.Content = append(out.Content, whole(c, size, &left))
		}
	}
	if missing > 0 {
		out.Content = append(out.Content, mcp.Text(fmt.Sprintf("[left out: %d more blocks of %d bytes]", missing, missed)))
	}
	return out
}

// textBlock is c itself where it fits and is nothing but its text: blocks are replaced, never changed.
func textBlock(c *mcp.TextContent, left *int) mcp.Content {
	if len(c.Text) <= *left && c.Annotations == nil && c.Meta == nil && c.Extra == nil {
		*left -= len(c.Text)
		return c
	}
	return mcp.Text(cutText(c.Text, left))
}

// cutText returns as much of s as fits, with a note where that is not all.
func cutText(s string, left *int) string {
	if len(s) <= *left {
		*left -= len(s)
		return s
	}
	head := clip.Head(s, *left)
	*left = 0
	return fmt.Sprintf("%s\n[cut here: this text has %d bytes, %d of them are shown]", head, len(s), len(head))
}

// whole returns c if it fits, else a note in its place.
func whole(c mcp.Content, size int, left *int) mcp.Content {
	if size > *left {
		return mcp.Text(fmt.Sprintf("[left out: %s of %d bytes, which is too large]", c.ContentType(), size))
	}
	*left -= size
	return c
}

// Size is how many bytes a block of content has.
func Size(c mcp.Content) int {
	switch c := c.(type) {
	case *mcp.TextContent:
		return len(c.Text)
	case *mcp.ImageContent:
		return len(c.Data)
	case *mcp.AudioContent:
		return len(c.Data)
	}
	raw, err := jsonx.Marshal(c)
	if err != nil {
		return maxMedia + 1
	}
	return len(raw)
}

// minMarked is how many bytes a result has that a mark is worth while for. A mark has
// less.
const minMarked = 256

// Bytes is how many bytes a result has.
func Bytes(r *mcp.ToolResultContent) int {
	n := len(r.StructuredContent)
	for _, c := range r.Content {
		n += Size(c)
	}
	return n
}

// Mark is one line in place of a result of so many bytes.
func Mark(tool string, bytes int, r *mcp.ToolResultContent) *mcp.ToolResultContent {
	return &mcp.ToolResultContent{ToolUseID: r.ToolUseID, IsError: r.IsError, Content: mcp.Contents{mcp.Text(fmt.Sprintf(
		"[the result of %s, %d bytes, was dropped to save room]", clip.Text(tool, 100), bytes))}}
}

// Marked is [Mark], or nil if that gains nothing.
func Marked(tool string, r *mcp.ToolResultContent) *mcp.ToolResultContent {
	if n := Bytes(r); n >= minMarked {
		return Mark(tool, n, r)
	}
	return nil
}

// minImageRoom is how many bytes of text a result has to have room for to keep its images.
const minImageRoom = 4000

// Shorten returns a result cut to so many bytes of text.
func Shorten(r *mcp.ToolResultContent, kept int) *mcp.ToolResultContent {
	short := ForModel(r.ToolUseID, &mcp.CallToolResult{Content: r.Content, StructuredContent: r.StructuredContent, IsError: r.IsError}, kept)
	short.Content = slices.DeleteFunc(short.Content, func(c mcp.Content) bool {
		_, image := c.(*mcp.ImageContent)
		return image && kept < minImageRoom
	})
	return short
}

// Warn adds to a result that the model turns in circles, as in journals of earlier versions: it is that of the nth of the
// same calls in a row. Zero adds nothing.
func Warn(r *mcp.ToolResultContent, nth int) {
	if nth == 0 {
		return
	}
	if len(r.Content) == 0 && len(r.StructuredContent) > 0 {
		r.Content = append(r.Content, mcp.Text(string(r.StructuredContent)))
	}
	r.Content = append(r.Content, mcp.Text(fmt.Sprintf(
		"[You have made this same call with the same arguments %d times in a row. "+
			"Its result will not help you any further: do something else, or answer with what you know.]", nth)))
}
