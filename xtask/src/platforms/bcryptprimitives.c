/* The one function of bcryptprimitives.dll that Rust's standard library calls, by an older one that Wine has. */
#include <windows.h>
#include <ntsecapi.h>

BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T bytes) {
  return SystemFunction036(data, (ULONG)bytes);
}
