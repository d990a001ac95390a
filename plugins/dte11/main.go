// Module dte11 computes the export invoice (DTE-11).
package main

import "dtegate/plugins/sdk"

func init() { sdk.Register(description, evaluate) }

func main() {}
