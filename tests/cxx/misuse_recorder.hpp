// Notes what the pools report instead of ending the program; for the tests of misuse.
#ifndef RTMALLOC_TESTS_MISUSE_RECORDER_HPP
#define RTMALLOC_TESTS_MISUSE_RECORDER_HPP

#include <string>
#include <vector>

#include "rtmalloc/misuse.hpp"

// Records while it lives; one at a time, one thread at a time.
class MisuseRecorder {
 public:
  MisuseRecorder() {
    reports().clear();
    rtm::set_misuse_handler([](const rtm::MisuseReport &report) { reports().push_back({report.kind, report.pool}); });
  }
  ~MisuseRecorder() { rtm::set_misuse_handler(nullptr); }

  std::vector<rtm::Misuse> kinds() const {
    std::vector<rtm::Misuse> result;
    for (const auto &report : reports()) result.push_back(report.kind);
    return result;
  }
  std::string last_pool() const { return reports().empty() ? "" : reports().back().pool; }

 private:
  struct Noted {
    rtm::Misuse kind;
    std::string pool;
  };
  static std::vector<Noted> &reports() {
    static std::vector<Noted> noted;
    return noted;
  }
};

using Kinds = std::vector<rtm::Misuse>;

#endif  // RTMALLOC_TESTS_MISUSE_RECORDER_HPP
