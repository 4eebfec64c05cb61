package modelservers

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// LlamaServer is built from the sources of llama.cpp, which the npm package
// node-llama-cpp brings as a git bundle.
var LlamaServer = &Program{
	Name: llamaName, Env: "LLAMA_SERVER_BIN", Version: "node-llama-cpp-" + llamaPackage,
	recipe: llamaSum + strings.Join(llamaFlags, " "),
	tools:  []string{"npm", "git", "cmake", "g++", "make"},
	apt:    "npm git cmake g++ make",
	build:  buildLlama,
}

const (
	llamaName    = "llama-server"
	llamaPackage = "3.22.1"
	llamaSum     = "6e5b488a9b9699cd76dc7eed30880318a4ac4ab866865418795502e3c5d38d55bb5c624988927209d95333343f2e25a83e4183a5c2f816f883a60c3ba9f4e20f"
	llamaBundle  = "package/llama/gitRelease.bundle"
)

// llamaFlags make one static program for any processor, without pages, TLS or OpenMP.
// Most of it is not worth more than -O1 to a model of a megabyte.
var llamaFlags = []string{
	"-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_FLAGS_RELEASE=-O2", "-DCMAKE_CXX_FLAGS_RELEASE=-O1",
	"-DBUILD_SHARED_LIBS=OFF", "-DGGML_NATIVE=OFF", "-DGGML_OPENMP=OFF",
	"-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_APP=OFF",
	"-DLLAMA_BUILD_UI=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF", "-DLLAMA_OPENSSL=OFF",
}

func buildLlama(ctx context.Context, work *workshop) error {
	name := "node-llama-cpp-" + llamaPackage + ".tgz"
	if err := work.run(ctx, nil, "npm", "pack", "--silent", "node-llama-cpp@"+llamaPackage); err != nil {
		return err
	}
	if err := extract(work.path(name), llamaSum, llamaBundle, work.path("llama.bundle")); err != nil {
		return fmt.Errorf("unpacking %s: %w", name, err)
	}
	if err := work.run(ctx, nil, "git", "-c", "advice.detachedHead=false", "clone", "-q", "llama.bundle", "src"); err != nil {
		return err
	}
	if err := work.run(ctx, nil, "cmake", append([]string{"-S", "src", "-B", "build"}, llamaFlags...)...); err != nil {
		return err
	}
	jobs := strconv.Itoa(runtime.NumCPU())
	if err := work.run(ctx, nil, "cmake", "--build", "build", "--target", "llama-server", "-j", jobs); err != nil {
		return err
	}
	return os.Rename(work.path("build/bin/llama-server"), work.path(llamaName))
}

// maxBundle bounds what is unpacked, in bytes.
const maxBundle = 200 << 20

// extract writes one file of an archive, which has to have the sum, to another name.
func extract(archive, sum, file, to string) error {
	in, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer in.Close()
	h := sha512.New()
	if _, err := io.Copy(h, in); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != sum {
		return fmt.Errorf("its sum is %s, want %s", got, sum)
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return err
	}
	unzipped, err := gzip.NewReader(in)
	if err != nil {
		return err
	}
	for entries := tar.NewReader(unzipped); ; {
		entry, err := entries.Next()
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("it has no %s", file)
		case err != nil:
			return err
		case entry.Name != file:
			continue
		case entry.Size > maxBundle:
			return fmt.Errorf("%s has %d bytes", file, entry.Size)
		}
		out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, entries)
		return errors.Join(err, out.Close())
	}
}
