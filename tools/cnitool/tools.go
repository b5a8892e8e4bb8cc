//go:build tools

// Package cnitool pins the reference client of the CNI specification, which our plugin is driven with.
//
// It holds no code; scripts/cnitool builds the program.
package cnitool

import _ "github.com/containernetworking/cni/cnitool"
