// Package lists keeps what a server has answered for as long as it may be used again: its
// lists ([List]), single answers ([Answers]), and what its tools' schemas say ([Schemas],
// [Headers]).
package lists
