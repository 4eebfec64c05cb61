// Package config reads troupe.yaml, the program's own configuration.
//
// [Read] reads one file, strictly: what is not known, or stands twice, is an error with file,
// line and column and the key that was probably meant. [Load] finds the files and puts one over the
// other: a file that is named stands alone; otherwise ./troupe.yaml lies over the user's.
//
// A ./troupe.yaml comes with a project that may be somebody else's. It may name models
// and set limits. What leads keys or conversations elsewhere, or lets servers use a model,
// is refused in it, unless the user names the file.
//
// Keys are of the type [Key], which no way of printing shows. They are read when they are
// needed, by [Provider.Resolve]: a key that is missing is no error for those who do not
// use it.
package config
