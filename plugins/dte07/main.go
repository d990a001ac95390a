// Module dte07 computes the withholding voucher (DTE-07).
package main

import "dtegate/plugins/sdk"

func init() { sdk.Register(description, evaluate) }

func main() {}
